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

type Change = readonly [from: string | RegExp, to: string]

interface Kind {
  debianPackage: string
  example: string // a file of examples/proxies, which is run as it stands but for the changes
  changes: (port: number, options: Required<ProxyOptions>) => Change[]
  args: (file: string, folder: string) => string[]
}

export const PROXIES: Record<'nginx' | 'haproxy' | 'caddy', Kind> = {
  nginx: {
    debianPackage: 'nginx-light',
    example: 'nginx.conf',
    changes: (port, { servers, keepAlive, prefix }) => [
      [/server petstore:8080 resolve(.*);/, servers.map((server) => `server 127.0.0.1:${server}$1;`).join('\n')],
      ['listen 80;', `listen 127.0.0.1:${port};`],
      ['keepalive_timeout 60s;', `keepalive_timeout ${keepAlive * 1000}ms;`],
      ['proxy_pass http://petstore;', `proxy_pass http://petstore${prefix === '' ? '' : `${prefix}/`};`],
    ],
    args: (file, folder) => [
      ...['-c', file, '-p', folder, '-e', 'stderr'],
      ...['-g', `daemon off; error_log stderr; pid ${folder}/pid; ${process.getuid?.() === 0 ? 'user root;' : ''}`],
    ],
  },
  haproxy: {
    debianPackage: 'haproxy',
    example: 'haproxy.cfg',
    changes: (port, { servers, keepAlive, prefix }) => [
      [/server petstore petstore:8080/, servers.map((at) => `server at${at} 127.0.0.1:${at}`).join('\n    ')],
      ['bind :80', `bind 127.0.0.1:${port}${prefix === '' ? '' : `\n    http-request set-path ${prefix}%[path]`}`],
      ['pool-purge-delay 60s', `pool-purge-delay ${keepAlive * 1000}ms`],
    ],
    args: (file) => ['-db', '-f', file],
  },
  caddy: {
    debianPackage: 'caddy',
    example: 'Caddyfile',
    changes: (port, { servers, keepAlive, prefix }) => [
      ['to petstore:8080', `to ${servers.map((server) => `127.0.0.1:${server}`).join(' ')}`],
      [':80 {', `http://127.0.0.1:${port} {${prefix === '' ? '' : `\n\trewrite * ${prefix}{uri}`}`],
      ['keepalive 60s', `keepalive ${keepAlive * 1000}ms`],
    ],
    args: (file) => ['run', '--config', file, '--adapter', 'caddyfile'],
  },
}

export type ProxyName = keyof typeof PROXIES

export interface ProxyOptions {
  servers: readonly number[] // ports of the servers behind it
  keepAlive?: number // seconds that it keeps an idle connection to a server
  prefix?: string // path that it puts before the path of every request
}

export interface Proxy {
  url: string
  /** The first errors that it wrote, without those of refused connections, after which it asks another server. */
  errors: () => readonly string[]
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

/** Starts a proxy that the end of the test ends; resolves when it reaches a server. */
export async function startProxy(t: TestContext, name: ProxyName, options: ProxyOptions): Promise<Proxy> {
  const { example, changes, args } = PROXIES[name]
  const [folder, port] = [folderOf(t), await freePort()]
  let configuration = readFileSync(`examples/proxies/${example}`, 'utf8')
  for (const [from, to] of changes(port, { keepAlive: 60, prefix: '', ...options })) {
    assert.ok(configuration.search(from) >= 0, `${from}`)
    configuration = configuration.replace(from, to)
  }
  const file = `${folder}/${example}`
  writeFileSync(file, configuration)
  const env = { ...process.env, HOME: folder } // Caddy keeps files there
  const running = spawn(name, args(file, folder), { stdio: ['ignore', 'pipe', 'pipe'], detached: true, env }) // a process group of its own
  let output = ''
  for (const stream of [running.stdout, running.stderr]) stream.on('data', (chunk) => (output += chunk))
  const exited = once(running, 'exit')
  t.after(async () => {
    if (running.exitCode === null) process.kill(-Number(running.pid), 'SIGKILL')
    await exited
  })
  const url = `http://127.0.0.1:${port}`
  while ((await send({ url }, 'GET', '/none').catch(() => undefined))?.status !== 404) {
    assert.equal(running.exitCode, null, output)
    await setTimeout(20)
  }
  return { url, errors: () => output.match(/^(?!.*refused).*error.*$/gim)?.slice(0, 10) ?? [] }
}
