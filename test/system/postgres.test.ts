// examples/postgres: two instances share one PostgreSQL, through load, kills and restarts of each.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { before, describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { DEMO_PETS } from '../demo.ts'
import { assertLikeAnArray } from '../pets/model.ts'
import { Running } from '../process.ts'
import { assertError, bearer, check, KEY, listAll, petsIn, SEED, send } from '../support.ts'
import { temporaryFile } from '../support.ts'
import { assertConforms } from '../verify.ts'
import { type Ask, loadDuring } from './load.ts'
import { isHere } from './packages.ts'
import type { OpenStore } from './postgres.ts'
import { hasPostgres, installExample, PROJECT, startDatabase } from './postgres.ts'
import { startInstance, startPgBouncer } from './postgres.ts'
import { startProxy } from './proxies.ts'

const RESTARTS = Number(process.env['RESTARTS'] ?? 1) // of each instance
const PETS = Number(process.env['PETS'] ?? 20_000)
const DOWN = Number(process.env['DOWN'] ?? 1) // seconds
const CREATES = 2_000
const CLIENTS = 32
const POOL = 10 // connections of each instance
const REX = '{"name":"Rex","categoryId":1,"status":"sold"}'
const skip = !hasPostgres && 'PostgreSQL is not here and cannot be installed'

let openStore: OpenStore['openStore']
before(async () => {
  if (hasPostgres) ({ openStore } = await installExample())
})

/** Lists and adds pets during some work. Returns the pets that were acknowledged. */
async function useDuring(url: string, work: Parameters<typeof loadDuring>[2]) {
  const acknowledged: string[] = []
  const ask: Ask = async (agent, count) => {
    const { status, body } = await (count % 2 === 0
      ? send({ url }, 'GET', '/v1/pets?status=sold', { agent })
      : send({ url }, 'POST', '/v1/pets', { agent, body: REX }))
    if (status === 201) acknowledged.push(body)
    else if (status !== 200) throw new Error(`${status} ${body}`)
  }
  return { acknowledged, ...(await loadDuring(CLIENTS, ask, work)) }
}

/** Asserts that none of the pets is missing. */
async function assertKept(instance: { url: string }, pets: readonly string[]): Promise<void> {
  const listed = new Set(await listAll(instance))
  const lost = pets.filter((json) => !listed.has(json))
  assert.deepEqual(lost, [])
}

describe('with PostgreSQL', { skip }, () => {
  test(`the store behaves like a plain array in random steps (SEED=${SEED})`, async (t) => {
    const { url } = await startDatabase(t)
    const store = openStore(url)
    await assertLikeAnArray(store, { steps: 3_000, maxBytes: Infinity })
    for (const after of [0, 10 ** 15 - 1])
      assert.deepEqual(await store.reset([]), true, `${await store.page({ limit: 1, after })}`)
    const ids = [2, 999_999_999_999_998]
    await store.reset(ids.map((id) => ({ id, name: '\0\ud800', categoryId: -(2n ** 63n) })))
    const json = (id: number) =>
      `{"id":${id},"name":"\\u0000\\ud800","categoryId":-9223372036854775808}`
    const page = { json: `[${ids.map(json)}]`, next: undefined }
    assert.deepEqual(await store.page({ limit: 2, after: 0 }), page)
    const last = await store.add({ name: 'Rex', categoryId: 1 })
    assert.ok(last.ok && last.id === 999_999_999_999_999)
    const none = await store.add({ name: 'Rex', categoryId: 1 })
    assert.ok(!none.ok && none.reason === 'storage_failed')
    await store.close()
  })

  test('reads at the same time get an answer each, even if one fails', async (t) => {
    const { url } = await startDatabase(t)
    const store = openStore(url)
    const ids = Array.from({ length: 100 }, (_, at) => at + 1)
    const json = (id: number) => `{"id":${id},"name":"pet ${id}","categoryId":${id}}`
    await store.reset(ids.map((id) => ({ name: `pet ${id}`, categoryId: id })))
    const read = () => ids.flatMap((id) => [store.get(id), store.page({ limit: 1, after: id - 1 })])
    const before = read()
    const failing = assert.rejects(async () => store.get(0.5), /invalid input syntax/)
    const after = read()
    await failing
    const next = (id: number) => (id === ids.length ? undefined : id)
    const all = ids.flatMap((id) => [json(id), { json: `[${json(id)}]`, next: next(id) }])
    assert.deepEqual(await Promise.all([...before, ...after]), [...all, ...all])
    await store.close()
  })

  test('two instances keep the contract, and 2,000 pets added through both at once', async (t) => {
    const database = await startDatabase(t)
    const instances = await Promise.all([0, 1].map(() => startInstance(t, database)))
    const [first, second] = instances
    assert.ok(first !== undefined && second !== undefined)
    const store = openStore(database.url)
    await store.reset([...DEMO_PETS, ...DEMO_PETS])
    await assertConforms(`${first.url}/v1`)
    await store.reset([])
    let isOver = false
    // Walks on from the last id that it saw, as a client does: it must miss none.
    const walk = async () => {
      const seen: string[] = []
      for (let wasOver = false; !wasOver;) {
        wasOver = isOver
        const after = seen.length === 0 ? 0 : JSON.parse(seen.at(-1) ?? '').id
        seen.push(...petsIn((await send(second, 'GET', `/v1/pets?limit=100&after=${after}`)).body))
      }
      return seen
    }
    const walking = [walk(), walk()]
    const acknowledged: string[] = []
    const client = async (_: unknown, at: number) => {
      const agent = new Agent({ keepAlive: true })
      for (let count = at; count < CREATES; count += CLIENTS) {
        const instance = instances[count % 2] ?? first
        const body = JSON.stringify({ name: `pet ${count}`, categoryId: count })
        const created = await check(instance, 'POST', '/v1/pets', 201, { agent, body })
        const listed = `/v1/pets?limit=1&after=${JSON.parse(created.body).id - 1}`
        for (const one of instances)
          assert.equal((await check(one, 'GET', listed, 200, { agent })).body, `[${created.body}]`)
        acknowledged.push(created.body)
      }
      agent.destroy()
    }
    await Promise.all(Array.from({ length: CLIENTS }, client))
    isOver = true
    const idOf = (json: string): number => JSON.parse(json).id
    const all = acknowledged.sort((a, b) => idOf(a) - idOf(b))
    assert.deepEqual(new Set(all.map(idOf)).size, CREATES)
    for (const one of instances) assert.deepEqual(await listAll(one), all)
    for (const seen of await Promise.all(walking)) {
      const rest = all.filter((json) => idOf(json) > idOf(seen.at(-1) ?? all[0] ?? ''))
      assert.deepEqual([...seen, ...rest], all)
    }
    await store.close()
    for (const one of instances) await one.stop()
  })

  test('kill -9 of an instance loses no acknowledged pet, and the other serves on', async (t) => {
    const database = await startDatabase(t)
    const killed = await startInstance(t, database)
    const other = await startInstance(t, database)
    const { acknowledged } = await useDuring(killed.url, async (answered) => {
      await answered(500)
      killed.running.process.kill('SIGKILL')
      await killed.running.exited
    })
    assert.ok(acknowledged.length > 100)
    await assertKept(other, acknowledged)
    await check(other, 'POST', '/v1/pets', 201, { body: REX })
  })

  const behindNginx = { skip: !isHere('nginx', 'nginx-light') && 'there is no nginx' }
  test('no request fails while instances restart behind nginx', behindNginx, async (t) => {
    const database = await startDatabase(t)
    const instances = [await startInstance(t, database), await startInstance(t, database)]
    const proxy = await startProxy(t, 'nginx', { servers: instances.map(({ port }) => port) })
    const { acknowledged, failures, count } = await useDuring(proxy.url, async (answered) => {
      for (let restart = 0; restart < RESTARTS * instances.length; restart++) {
        await answered(500)
        await instances[restart % instances.length]?.restart()
      }
    })
    t.diagnostic(`${count} requests, ${failures.length} of them failed`)
    assert.deepEqual(failures.slice(0, 10), [], proxy.errors().join('\n'))
    const listed = await listAll(proxy)
    assert.deepEqual(listed.sort(), acknowledged.sort())
  })

  const withPgBouncer = { skip: !isHere('pgbouncer') && 'there is no PgBouncer' }
  test('through PgBouncer in transaction mode no request fails', withPgBouncer, async (t) => {
    const database = await startDatabase(t)
    const instance = await startInstance(t, { url: await startPgBouncer(t, database) })
    const { acknowledged, failures } = await useDuring(instance.url, (answered) => answered(1_000))
    assert.deepEqual(failures.slice(0, 10), [], instance.running.stdout.text.slice(0, 2_000))
    assert.deepEqual((await listAll(instance)).sort(), acknowledged.sort())
    await instance.stop()
  })

  test('SIGHUP reads the file of keys again', async (t) => {
    const database = await startDatabase(t)
    const file = temporaryFile('first-key # of the tests\n')
    const instance = await startInstance(t, database, { PETSTORE_API_KEYS_FILE: file })
    const statuses = async () => {
      const answers = ['first-key', 'other-key', KEY].map((key) =>
        send(instance, 'GET', '/v1/pets', { headers: bearer(key) }),
      )
      return (await Promise.all(answers)).map(({ status }) => status)
    }
    assert.deepEqual(await statuses(), [200, 401, 200])
    for (const [content, said, expected] of [
      ['other-key', /valid keys: 2/, [401, 200, 200]],
      ['bad', /the API keys stay as they were/, [401, 200, 200]],
    ] as const) {
      writeFileSync(file, content)
      instance.running.process.kill('SIGHUP')
      await instance.running.until(said)
      assert.deepEqual(await statuses(), expected)
    }
    await instance.stop()
  })

  test('while the database is down requests get 503, and then all is well again', async (t) => {
    const database = await startDatabase(t)
    const instance = await startInstance(t, database)
    const PATHS = ['/v1/pets', '/v1/pets?status=sold', '/v1/pets/1', '/readyz']
    const until = async (status: number) => {
      while ((await send(instance, 'GET', '/readyz')).status !== status) await setTimeout(20)
    }
    await check(instance, 'POST', '/v1/pets', 201, { body: REX })
    const { acknowledged, failures } = await useDuring(instance.url, async (answered) => {
      await answered(100)
      await database.stop()
      await until(503)
      const end = performance.now() + 1_000 * DOWN
      do {
        await check(instance, 'GET', '/livez', 200)
        await check(instance, 'POST', '/v1/pets', '503 storage_failed', { body: REX })
        for (const path of PATHS) await check(instance, 'GET', path, '503 storage_failed')
      } while (performance.now() < end)
      await database.start()
      await until(200)
      await answered(100)
    })
    for (const failure of failures)
      assert.match(failure, / 503 \{"code":"(?:storage_failed|outcome_unknown)"/)
    await assertKept(instance, acknowledged)
    const connections = "select count(*) from pg_stat_activity where application_name = ''"
    assert.ok(Number(database.query(`${connections} and backend_type = 'client backend'`)) <= POOL)
    await instance.stop()
  })

  test('a create that fails says whether the pet may have been added', async (t) => {
    const database = await startDatabase(t)
    const instance = await startInstance(t, database)
    await check(instance, 'POST', '/v1/pets', 201, { body: REX })
    const waiting = "wait_event_type = 'Lock' and query like '%with counter%'"
    const backends = (what: string) =>
      database.query(`select ${what} from pg_stat_activity where ${waiting}`)
    const lock = 'begin; update pets_counter set last_id = last_id; select pg_sleep(60)'
    const holder = new Running(['psql', database.url, '-X', '-c', lock], { stdio: 'ignore' })
    t.after(() => holder.process.kill())
    const create = async () => {
      const answer = send(instance, 'POST', '/v1/pets', { body: REX })
      while (backends('count(*)') === '0') await setTimeout(20)
      return answer
    }
    const waitForHolder = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'"
    while (database.query(waitForHolder) === '0') await setTimeout(20)
    const refused = assertError(await create(), 503, 'storage_failed')
    assert.equal(refused, 'The pet was not added: try again')
    const lost = send(instance, 'POST', '/v1/pets', { body: REX })
    while (backends('pg_terminate_backend(pid)') === '') await setTimeout(20)
    const unknown = assertError(await lost, 503, 'outcome_unknown')
    assert.match(unknown, /may have been added: list the pets before you repeat it$/)
    database.query(waitForHolder.replace('count(*)', 'pg_terminate_backend(pid)'))
    await check(instance, 'POST', '/v1/pets', 201, { body: REX })
    assert.equal((await listAll(instance)).length, 2)
  })

  test(`a page of one status reads as little among ${PETS} pets as among 1,000`, async (t) => {
    const database = await startDatabase(t)
    const store = openStore(database.url)
    const source = readFileSync(`${PROJECT}/store.mjs`, 'utf8')
    const [, ofStatus] = /OF_STATUS = '(.*)'/.exec(source) ?? []
    assert.equal(await store.isWritable(), true)
    const blocksRead = (count: number) => {
      // One pet in 500 is pending, all others are sold.
      database.query(`truncate pets; insert into pets select id, status, '{}' from
        (select id, case id % 500 when 0 then 'pending' else 'sold' end as status
         from generate_series(1, ${count}) as id) as many`)
      database.query('vacuum analyze pets')
      const read = (after: number, status: string) => {
        const plan =
          database.query(`prepare page (bigint, int, text) as select id, json from pets ${ofStatus};
          set plan_cache_mode = force_generic_plan;
          explain (analyze, buffers, format json) execute page (${after}, 21, '${status}')`)
        const [{ Plan: node }] = JSON.parse(plan)
        return node['Shared Hit Blocks'] + node['Shared Read Blocks'] - node['Actual Rows']
      }
      return Math.max(read(0, 'pending'), read(count >> 1, 'sold'))
    }
    const few = blocksRead(1_000)
    const many = blocksRead(PETS)
    t.diagnostic(`${few} blocks beside those of the rows, and ${many}`)
    assert.ok(many <= few + 4)
    await store.close()
  })
})
