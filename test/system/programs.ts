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

/** Whether a command is here. If not, tries to install its Debian package, one at a time. */
export function isHere(command: string, debianPackage: string = command): boolean {
  const look = `PATH=$PATH:/usr/sbin command -v ${command}`
  // Debian starts the services that it installs.
  const install = `export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq; apt-get install -y -qq ${debianPackage}
    service ${command} stop; service ${debianPackage} stop`
  const script = `${look} || { ${install}; }; ${look}`
  return spawnSync('flock', [join(tmpdir(), 'petstore-packages'), 'sh', '-c', script]).status === 0
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
export async function startNginx(t: TestContext, ports: readonly number[]): Promise<string> {
  const folder = temporaryFolder(t)
  const port = await freePort()
  const servers = ports.map((one) => `server 127.0.0.1:${one} max_fails=0;`).join('\n')
  const example = readFileSync('examples/nginx.conf', 'utf8')
  const configuration = example
    .replace(/server petstore:8080 resolve max_fails=0;/, servers) // no name server is here
    .replace('listen 80;', `listen 127.0.0.1:${port};`)
  assert.ok(configuration.includes(servers) && !configuration.includes('listen 80;'))
  const file = join(folder, 'nginx.conf')
  writeFileSync(file, configuration)
  const user = process.getuid?.() === 0 ? 'user root;' : ''
  const globals = `daemon off; pid ${folder}/pid; ${user}`
  run(t, ['nginx', '-c', file, '-p', folder, '-e', 'stderr', '-g', globals])
  const url = `http://127.0.0.1:${port}`
  while (!(await send({ url }, 'GET', '/').catch(() => undefined))) await setTimeout(20)
  return url
}

export interface Load {
  readonly failures: string[]
  readonly created: string[] // the JSON of each pet that was acknowledged
  /** Waits for more responses. */
  answered(more: number): Promise<void>
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
  const ask = async (isCreate: boolean): Promise<void> => {
    const body = JSON.stringify({ name: `pet ${count}`, categoryId: count })
    const { status, ...answer } = await (isCreate
      ? send({ url }, 'POST', '/v1/pets', { agent, body })
      : send({ url }, 'GET', '/v1/pets?limit=3', { agent }))
    if (status === 201) created.push(answer.body)
    else if (status !== 200) failures.push(`${status} ${answer.body}`)
  }
  const client = async (_: unknown, at: number): Promise<void> => {
    while (!isOver) {
      await ask(at % 2 === 0).catch((error) => failures.push(String(error)))
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
