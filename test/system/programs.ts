// Programs that the system tests need, and clients that keep a server busy.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { environment, run } from '../process.ts'
import { send, temporaryFolder } from '../support.ts'

/** Runs a program that must succeed, and returns its standard output. */
export function must(program: string, ...args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(program, args, {
    encoding: 'utf8',
    env: environment(),
  })
  assert.equal(status, 0, `${program} ${args.join(' ')}\n${stdout}${stderr}`)
  return stdout
}

/** Whether a command is here. Root installs its Debian package, if not. */
export function isHere(command: string, debianPackage: string = command): boolean {
  const look = `PATH=$PATH:/usr/sbin command -v ${command}`
  if (spawnSync('sh', ['-c', look]).status === 0) return true
  if (process.getuid?.() !== 0) return false
  // One package at a time. Debian starts the services that it installs.
  const install = `export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq; apt-get install -y -qq ${debianPackage}
    service ${command} stop; service ${debianPackage} stop; ${look}`
  return spawnSync('flock', [join(tmpdir(), 'petstore-packages'), 'sh', '-c', install]).status === 0
}

/** Why a test that needs a command is skipped; false if the command is here. */
export function missing(command: string, debianPackage?: string): string | false {
  return !isHere(command, debianPackage) && `${command} is not here and cannot be installed`
}

/** A port that is free now. */
export async function freePort(): Promise<number> {
  // Below the ports that the system itself gives to connections, which may take one meanwhile.
  const port = randomInt(11_000, 30_000)
  const server = createServer().listen(port, '127.0.0.1')
  const isFree = await once(server, 'listening').catch(() => undefined)
  await new Promise((resolve) => server.close(resolve))
  return isFree ? port : freePort()
}

/** Starts the nginx of examples/nginx.conf in front of servers at these ports. */
export async function startNginx(
  t: TestContext,
  ports: readonly number[],
  listenAt = (address: string): string => `listen ${address};`,
): Promise<string> {
  const folder = temporaryFolder(t)
  const port = await freePort()
  const servers = ports.map((one) => `server 127.0.0.1:${one} max_fails=0;`).join('\n')
  const configuration = readFileSync('examples/nginx.conf', 'utf8')
    .replace('server petstore:8080 max_fails=0;', servers)
    .replace('listen 80;', listenAt(`127.0.0.1:${port}`))
  assert.ok(configuration.includes(servers) && !configuration.includes('listen 80;'))
  const file = join(folder, 'nginx.conf')
  writeFileSync(file, configuration)
  const user = process.getuid?.() === 0 ? 'user root;' : ''
  const globals = `daemon off; pid ${folder}/pid; ${user}`
  return proxy(t, ['nginx', '-c', file, '-p', folder, '-e', 'stderr', '-g', globals], port)
}

/** The code in a language that docs/operation.md shows. */
export function shownIn(language: 'nginx' | 'haproxy'): string {
  const fence = new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 's')
  const [, code = ''] = fence.exec(readFileSync('docs/operation.md', 'utf8')) ?? []
  return code
}

/** Starts HAProxy with the lines of docs/operation.md, in front of servers at these ports. */
export async function startHaproxy(t: TestContext, ports: readonly number[]): Promise<string> {
  const port = await freePort()
  const servers = ports.map((one) => `server petstore-${one} 127.0.0.1:${one}`).join('\n')
  const file = join(temporaryFolder(t), 'haproxy.cfg')
  writeFileSync(
    file,
    `defaults
    mode http
    timeout client 75s
frontend web
    bind 127.0.0.1:${port}
    option forwardfor
    unique-id-format %[uuid]
    unique-id-header X-Request-Id
    default_backend petstore
${shownIn('haproxy').replace('server petstore 127.0.0.1:8080', servers)}`,
  )
  return proxy(t, ['haproxy', '-f', file], port)
}

/** Starts a proxy, and waits until it answers. */
async function proxy(t: TestContext, command: readonly string[], port: number): Promise<string> {
  const { child, stderr } = run(t, command)
  const url = `http://127.0.0.1:${port}`
  while (!(await send({ url }, 'GET', '/livez').catch(() => undefined))) {
    assert.equal(child.exitCode, null, stderr.text)
    await setTimeout(20)
  }
  return url
}

export interface Load {
  readonly failures: string[] // each with its method
  readonly created: string[] // the JSON of each pet that was acknowledged
  /** Waits for more responses. */
  answered(more: number): Promise<void>
  /** The longest time without a good response since the last call, in milliseconds. */
  pause(): number
  end(): Promise<void>
}

/** Keeps clients busy, each on its own connection, who list pets and add some. */
export function startLoad(url: string, clients: number): Load {
  const agent = new Agent({ keepAlive: true, maxSockets: clients })
  const progress = new EventEmitter()
  const failures: string[] = []
  const created: string[] = []
  let count = 0
  let isOver = false
  let latest = performance.now()
  let longest = 0
  const ask = async (method: 'GET' | 'POST'): Promise<void> => {
    const body = JSON.stringify({ name: `pet ${count}`, categoryId: count })
    const [path, sent] = method === 'POST' ? ['/v1/pets', { body }] : ['/v1/pets?limit=3', {}]
    const answer = await send({ url }, method, path, { agent, ...sent })
    if (answer.status >= 400) throw new Error(`${answer.status} ${answer.body}`)
    longest = Math.max(longest, performance.now() - latest)
    latest = performance.now()
    if (method === 'POST') created.push(answer.body)
  }
  const client = async (_: unknown, at: number): Promise<void> => {
    const method = at % 2 === 0 ? 'POST' : 'GET'
    while (!isOver) {
      await ask(method).catch((error) => failures.push(`${method} ${error}`))
      count++
      progress.emit('answered')
    }
  }
  const busy = Array.from({ length: clients }, client)
  return {
    failures,
    created,
    async answered(more) {
      const end = count + more
      while (count < end) await once(progress, 'answered')
    },
    pause() {
      const pause = longest
      longest = 0
      return pause
    },
    async end() {
      isOver = true
      await Promise.all(busy)
      agent.destroy()
    },
  }
}

/** The JSON of every pet, by walking from page to page. */
export async function listAll(server: { url: string }): Promise<string[]> {
  const pets: string[] = []
  for (let after = 0n; ;) {
    const { body, headers } = await send(server, 'GET', `/v1/pets?limit=100&after=${after}`)
    const page = body.match(/\{.*?\}/g) ?? []
    pets.push(...page)
    if (!headers['link']) return pets
    after = BigInt(/"id":(\d+)/.exec(page.at(-1) ?? '')?.[1] ?? '')
  }
}
