// Real proxies, configured as in production, in front of servers on loopback.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import type { TestContext } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { Running } from '../process.ts'
import { folderOf, freePort, send } from '../support.ts'

type Change = readonly [from: string | RegExp, to: string]

interface Kind {
  debianPackage: string
  example: string // a file of examples/proxies, used with these changes only
  changes: (port: number, options: Required<ProxyOptions>) => Change[]
  prefixChange: (prefix: string) => Change // made last, if there is a prefix
  args: (file: string, folder: string) => string[]
}

export const PROXIES: Record<'nginx' | 'haproxy' | 'caddy', Kind> = {
  nginx: {
    debianPackage: 'nginx-light',
    example: 'nginx.conf',
    changes: (port, { servers, keepAlive }) => [
      [
        /server petstore:8080 resolve(.*);/,
        servers.map((server) => `server 127.0.0.1:${server}$1;`).join('\n'),
      ],
      ['listen 80;', `listen 127.0.0.1:${port};`],
      ['keepalive_timeout 60s;', `keepalive_timeout ${keepAlive * 1000}ms;`],
    ],
    prefixChange: (prefix) => ['proxy_pass http://petstore', `$&${prefix}/`],
    args: (file, folder) => {
      const user = process.getuid?.() === 0 ? 'user root;' : ''
      const globals = `daemon off; error_log stderr; pid ${folder}/pid; ${user}`
      return ['-c', file, '-p', folder, '-e', 'stderr', '-g', globals]
    },
  },
  haproxy: {
    debianPackage: 'haproxy',
    example: 'haproxy.cfg',
    changes: (port, { servers, keepAlive }) => [
      [
        /server petstore petstore:8080/,
        servers.map((at) => `server at${at} 127.0.0.1:${at}`).join('\n    '),
      ],
      ['bind :80', `bind 127.0.0.1:${port}`],
      ['pool-purge-delay 60s', `pool-purge-delay ${keepAlive * 1000}ms`],
    ],
    prefixChange: (prefix) => [/ bind .*/, `$&\n    http-request set-path ${prefix}%[path]`],
    args: (file) => ['-db', '-f', file],
  },
  caddy: {
    debianPackage: 'caddy',
    example: 'Caddyfile',
    changes: (port, { servers, keepAlive }) => [
      ['to petstore:8080', `to ${servers.map((server) => `127.0.0.1:${server}`).join(' ')}`],
      [':80 {', `http://127.0.0.1:${port} {`],
      ['keepalive 60s', `keepalive ${keepAlive * 1000}ms`],
    ],
    prefixChange: (prefix) => [/http:\/\/127.* \{/, `$&\n\trewrite * ${prefix}{uri}`],
    args: (file) => ['run', '--config', file, '--adapter', 'caddyfile'],
  },
}

export type ProxyName = keyof typeof PROXIES

export interface ProxyOptions {
  servers: readonly number[] // ports
  keepAlive?: number // seconds that an idle connection to a server is kept
  prefix?: string // added before the path of every request
}

/** Starts a proxy until the end of the test; resolves when it reaches a server. */
export async function startProxy(
  t: TestContext,
  name: ProxyName,
  options: ProxyOptions,
): Promise<{ url: string; errors: () => readonly string[] }> {
  const { example, changes, prefixChange, args } = PROXIES[name]
  const { servers, keepAlive = 60, prefix = '' } = options
  const folder = folderOf()
  const port = await freePort()
  const all = changes(port, { servers, keepAlive, prefix })
  if (prefix !== '') all.push(prefixChange(prefix))
  let configuration = readFileSync(`examples/proxies/${example}`, 'utf8')
  for (const [from, to] of all) {
    assert.ok(configuration.search(from) >= 0, `${from}`)
    configuration = configuration.replace(from, to)
  }
  const file = `${folder}/${example}`
  writeFileSync(file, configuration)
  const env = { ...process.env, HOME: folder } // Caddy keeps files there
  const detached = true // a process group of its own, because nginx has workers
  const running = new Running([name, ...args(file, folder)], { env, detached })
  const group = -(running.process.pid ?? assert.fail(`${name} did not start`))
  t.after(async () => {
    if (running.process.exitCode === null) process.kill(group, 'SIGKILL')
    await running.exited
  })
  const output = () => `${running.stdout.text}\n${running.stderr.text}`
  const url = `http://127.0.0.1:${port}`
  while ((await send({ url }, 'GET', '/none').catch(() => undefined))?.status !== 404) {
    assert.equal(running.process.exitCode, null, output())
    await setTimeout(20)
  }
  // Refused connections are no errors: it then tries another server.
  const errors = () => (output().match(/^(?!.*refused).*error.*$/gim) ?? []).slice(0, 10)
  return { url, errors }
}
