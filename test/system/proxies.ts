// Real proxies, set up as in production, in front of servers on loopback.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { TestContext } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { folderOf, send } from '../support.ts'

/** The document that shows nginx's configuration. */
const DOCUMENT = 'README.md'
/** The Debian package of each proxy. */
export const PROXIES = { nginx: 'nginx-light', haproxy: 'haproxy' }

export type ProxyName = keyof typeof PROXIES

export interface ProxyOptions {
  /** Ports of the servers behind it. */
  servers: readonly number[]
  /** Seconds that it keeps an idle connection to a server. */
  keepAlive?: number
  /** Path that it puts before the path of every request. */
  prefix?: string
}

export interface Proxy {
  url: string
  /** Resolves when it takes all servers for well. */
  isWell: () => Promise<void>
  /** The first errors that it wrote, without those of refused connections, after which it asks another server. */
  errors: () => string
}

/** A port for a server that is to come back to it: none of those that the system gives to clients meanwhile. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(10_000, 30_000)
    const server = createServer().listen(port, '127.0.0.1')
    const isFree = await once(server, 'listening').catch(() => undefined)
    server.close()
    if (isFree !== undefined) return port
  }
}

/** Starts a proxy that the end of the test ends. */
export async function startProxy(t: TestContext, name: ProxyName, options: ProxyOptions): Promise<Proxy> {
  const folder = folderOf(t)
  const port = await freePort()
  const file = `${folder}/${name}.conf`
  writeFileSync(file, CONFIGURATIONS[name](port, options, folder))
  const args = name === 'nginx' ? ['-c', file, '-p', folder, '-e', 'stderr'] : ['-db', '-f', file]
  const running = spawn(name, args, { stdio: ['ignore', 'pipe', 'pipe'], detached: true }) // a process group of its own
  let errors = ''
  for (const stream of [running.stdout, running.stderr]) stream.on('data', (chunk) => (errors += chunk))
  const exited = once(running, 'exit')
  t.after(async () => {
    if (running.exitCode === null) process.kill(-Number(running.pid), 'SIGKILL')
    await exited
  })
  const url = `http://127.0.0.1:${port}`
  const isWell = async () => {
    for (;;) {
      const { status } = await send({ url }, 'GET', '/well').catch(() => ({ status: 502 }))
      if (status < 500) return
      assert.equal(running.exitCode, null, errors)
      await setTimeout(20)
    }
  }
  await isWell()
  return { url, isWell, errors: () => errors.replaceAll(/^.*refused.*\n/gm, '').slice(0, 2_000) }
}

const CONFIGURATIONS: Record<ProxyName, (port: number, options: ProxyOptions, folder: string) => string> = {
  /** The README's, but for addresses and times. */
  nginx(port, { servers, keepAlive = 60, prefix = '' }, folder) {
    let site = /```nginx\n(.*?)```/s.exec(readFileSync(DOCUMENT, 'utf8'))?.[1] ?? ''
    const replace = (from: RegExp, to: string) => {
      assert.match(site, from)
      site = site.replace(from, to)
    }
    replace(/server petstore:8080(.*);/, servers.map((server) => `server 127.0.0.1:${server}$1;`).join('\n'))
    replace(/listen 80;/, `listen 127.0.0.1:${port};`)
    replace(/keepalive_timeout 60s;/, `keepalive_timeout ${keepAlive * 1000}ms;`)
    replace(/proxy_pass http:\/\/petstore;/, `proxy_pass http://petstore${prefix === '' ? '' : `${prefix}/`};`)
    const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((of) => `${of}_temp_path ${folder}/${of};`)
    return `
      ${process.getuid?.() === 0 ? 'user root;' : ''} daemon off; worker_processes auto; pid ${folder}/nginx.pid;
      error_log stderr; events {} http { access_log off; ${paths.join(' ')} ${site} }`
  },
  haproxy(port, { servers, keepAlive = 60, prefix = '' }) {
    return `
      defaults
        mode http
        timeout connect 2s
        timeout client 60s
        timeout server 60s
        retries 3
        option redispatch 1
        option httpchk GET /readyz

      frontend public
        bind 127.0.0.1:${port}
        http-request return status 503 if { path /well } { nbsrv(petstore) lt ${servers.length} }
        ${prefix === '' ? '' : `http-request set-path ${prefix}%[path]`}
        http-response del-header Keep-Alive # the server's own, of another connection than the client's
        default_backend petstore

      backend petstore
        balance roundrobin
        default-server check inter 5s fastinter 100ms downinter 100ms rise 1 pool-purge-delay ${keepAlive * 1000}ms
        ${servers.map((server) => `server at${server} 127.0.0.1:${server}`).join('\n        ')}
`
  },
}
