import assert from 'node:assert/strict'
import { chmodSync, chownSync, existsSync, lstatSync, mkdirSync, readdirSync } from 'node:fs'
import { readFileSync, renameSync, rmSync, statSync, symlinkSync, utimesSync } from 'node:fs'
import { writeFileSync } from 'node:fs'
import files from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { test, type TestContext } from 'node:test'
import { startPetstore } from '../../src/index.ts'
import type { Pet, Petstore } from '../../src/types.ts'
import { send, start, temporaryFolder } from '../support.ts'

const REX = '{"id":1,"name":"Rex","categoryId":1}'
const TOM = '{"id":7,"name":"Tom","categoryId":2,"status":"sold"}'
const MAX = '{"id":9223372036854775807,"name":"Max","categoryId":-9223372036854775808}'
const NEW = { name: 'new', categoryId: 1 }

/** FILE as a server writes it. */
function lines(...pets: string[]): string {
  return `[${pets.map((pet) => `\n${pet}`).join(',')}\n]\n`
}

/** A path for FILE, in a folder of its own; FILE has a text if one is given. */
function fileOf(t: TestContext, text?: string): string {
  const path = `${temporaryFolder(t)}/pets.json`
  if (text !== undefined) writeFileSync(path, text)
  return path
}

async function list(petstore: Petstore): Promise<string> {
  return (await send(petstore, 'GET', '/v1/pets?limit=100')).body
}

async function create(petstore: Petstore, name = 'new'): Promise<string> {
  const body = JSON.stringify({ name, categoryId: 1 })
  const answer = await send(petstore, 'POST', '/v1/pets', { body })
  return answer.status === 201 ? answer.body : `${answer.status} ${JSON.parse(answer.body).code}`
}

async function isReady(petstore: Petstore): Promise<boolean> {
  return (await send(petstore, 'GET', '/readyz')).status === 200
}

/** Resolves once the list is as it is expected. */
async function lists(petstore: Petstore, ...pets: string[]): Promise<void> {
  while ((await list(petstore)) !== `[${pets.join(',')}]`);
}

/** Puts a function in the place of one of node:fs/promises, until the test ends. */
function replace<Name extends 'open' | 'rename' | 'writeFile'>(
  t: TestContext,
  name: Name,
  wrap: (original: (typeof files)[Name]) => (typeof files)[Name],
): void {
  const original = files[name]
  files[name] = wrap(original)
  syncBuiltinESMExports()
  t.after(() => {
    files[name] = original
    syncBuiltinESMExports()
  })
}

/** Calls a function in the middle of a write, and another one right after a rename. */
function during(t: TestContext, write: () => void, renamed: () => void = () => {}): void {
  replace(t, 'writeFile', (original) => async (...args) => {
    await original(...args)
    write()
  })
  replace(t, 'rename', (original) => async (...args) => {
    await original(...args)
    renamed()
  })
}

test('FILE may have any layout, and is written with a pet on each line', async (t) => {
  const odd = '{"id":3,"name":"\\ud800 3.5","categoryId":9007199254740993}'
  const layouts: [string, ...string[]][] = [
    ['[]'],
    [' [\r\n]\r\n'],
    [`[${REX},${TOM}]`, REX, TOM],
    [`\ufeff${lines(REX, TOM)}`, REX, TOM],
    [JSON.stringify([JSON.parse(REX), JSON.parse(TOM)], null, 4), REX, TOM],
    ['[{"status":"sold","categoryId":2.0,"name":"T","name":"T\\u006fm","id":7}]', TOM],
    [lines(REX, odd, MAX), REX, odd, MAX],
  ]
  for (const [layout, ...pets] of layouts) {
    const path = fileOf(t, layout)
    const petstore = await start(t, { snapshot: path })
    assert.equal(await list(petstore), `[${pets.join(',')}]`)
    assert.equal(readFileSync(path, 'utf8'), lines(...pets))
    await petstore.close()
  }
})

test('a FILE that is no array of pets is refused with the place, and left as it is', async (t) => {
  const refused: [string | Buffer, RegExp][] = [
    ['', /pets: Unexpected end of JSON input/],
    [`[\n${REX},\n`, /pets: Unexpected end of JSON input/],
    [`[\n${REX},\n]\n`, /line 3: it is not valid JSON/],
    [`[\n${REX}\n${TOM}\n]\n`, /line 3: Expected ',' or '\]' after array element/],
    [`[\n${REX.replace('}', ',}')},\n${TOM}\n]\n`, /line 2: Expected double-quoted property name/],
    [`<<<<<<< ours\n${lines(REX)}`, /line 1: it is not valid JSON/],
    [Buffer.from([0x5b, 0xff, 0x5d]), /it is not valid UTF-8/],
    [REX, /it must be an array of pets/],
    [lines(REX, 'null'), /in item 2, a pet must be an object/],
    [lines(REX, REX), /in item 2, id must be an integer above 1, the id before it/],
    [lines(TOM, REX), /in item 2, id must be an integer above 7/],
    [lines(REX.replace('1', '0')), /in item 1, id must be an integer above 0/],
    [lines(REX.replace('1', '9223372036854775808')), /in item 1, id must be .* at most 2\^63-1/],
    [lines(REX.replace('"id":1,', '')), /in item 1, id must be/],
    [lines(REX, TOM.replace('sold', 'gone')), /in item 2, status must be one of/],
    [lines(REX.replace('}', ',"age":3}')), /in item 1, a pet must not have "age"/],
  ]
  for (const [content, message] of refused) {
    const path = fileOf(t)
    writeFileSync(path, content)
    utimesSync(path, 1, 1)
    const { ino, mtimeMs } = statSync(path)
    await assert.rejects(startPetstore({ snapshot: path }), (error: Error) => {
      assert.match(error.message, message)
      assert.ok(error.message.startsWith(`${path} must be a JSON array of pets: `))
      return 'code' in error && error.code === 'storage_failed'
    })
    assert.deepEqual(readFileSync(path), Buffer.from(content))
    assert.deepEqual({ ino, mtimeMs }, { ino: statSync(path).ino, mtimeMs: statSync(path).mtimeMs })
    assert.deepEqual(readdirSync(path.replace('/pets.json', '')), ['pets.json'])
  }
})

test('a start fails where FILE cannot be written, and says why', async (t) => {
  const folder = temporaryFolder(t)
  mkdirSync(`${folder}/a.json`)
  mkdirSync(`${folder}/b.json.new`)
  utimesSync(`${folder}/b.json.new`, 1, 1)
  symlinkSync('c.json', `${folder}/c.json`)
  for (const [path, message] of [
    [`${folder}/a.json`, /a\.json must be a regular file/],
    [`${folder}/b.json`, /b\.json\.new was left by a kill, and cannot be removed: /],
    [`${folder}/c.json`, /ELOOP/],
    [`${folder}/none/d.json`, /none\/d\.json must be in a folder that exists/],
    [`${folder}/${'e'.repeat(252)}`, /e cannot be written: ENAMETOOLONG/],
  ] as const) {
    await assert.rejects(startPetstore({ snapshot: path }), { code: 'storage_failed', message })
  }
})

test('ids are kept, go on after a restart, and begin anew with a reset only', async (t) => {
  const snapshot = fileOf(t)
  const pets = [{ id: 9007199254740991n, ...NEW }]
  const first = await start(t, { snapshot, pets })
  assert.match(await create(first), /^\{"id":9007199254740992,/)
  await first.close()
  const second = await start(t, { snapshot, pets: [{ name: 'not taken', categoryId: 1 }] })
  assert.match(await create(second), /^\{"id":9007199254740993,/)
  assert.equal((await send(second, 'GET', '/v1/pets/9007199254740993')).status, 200)
  writeFileSync(snapshot, lines(REX))
  assert.match(await create(second), /^\{"id":9007199254740994,/)
  await second.reset([])
  assert.equal(readFileSync(snapshot, 'utf8'), '[\n]\n')
  assert.equal(await create(second, 'Rex'), REX)
  await second.reset([{ id: 9223372036854775807n, name: 'Max', categoryId: -(2n ** 63n) }])
  assert.equal(await create(second), '507 store_full')
  assert.equal(readFileSync(snapshot, 'utf8'), lines(MAX))
})

test('additions that come during a write go into the next one, together', async (t) => {
  const snapshot = fileOf(t)
  const petstore = await start(t, { snapshot })
  const many = Array.from({ length: 50 }, () => NEW)
  const written: number[] = []
  const later: Promise<unknown>[] = []
  during(
    t,
    () => {
      if (written.length === 0) later.push(petstore.add(many), petstore.add(many))
    },
    () => written.push(JSON.parse(readFileSync(snapshot, 'utf8')).length),
  )
  await petstore.add(many)
  assert.deepEqual(written, [50])
  await Promise.all(later)
  assert.deepEqual(written, [50, 150])
})

test('a link is followed once, also where it leads to nothing yet', async (t) => {
  const folder = temporaryFolder(t)
  mkdirSync(`${folder}/real/deep`, { recursive: true })
  symlinkSync('real/deep', `${folder}/linked`)
  symlinkSync('../there.json', `${folder}/real/deep/one.json`)
  symlinkSync('one.json', `${folder}/linked/two.json`)
  for (let run = 0; run < 2; run++) {
    const petstore = await start(t, { snapshot: `${folder}/linked/two.json` })
    await create(petstore)
    assert.equal(JSON.parse(readFileSync(`${folder}/real/there.json`, 'utf8')).length, run + 1)
    assert.ok(lstatSync(`${folder}/linked/two.json`).isSymbolicLink())
    await petstore.close()
  }
})

test('FILE keeps its owner and mode', async (t) => {
  const snapshot = fileOf(t, lines(REX))
  const isRoot = process.getuid?.() === 0
  chmodSync(snapshot, 0o640)
  if (isRoot) chownSync(snapshot, 1234, 2345)
  const { uid, gid, mode } = statSync(snapshot)
  await create(await start(t, { snapshot }))
  const after = statSync(snapshot)
  assert.deepEqual([after.uid, after.gid, after.mode], [uid, gid, mode])
})

test('a FILE.new that a kill left behind a minute ago is removed at once', async (t) => {
  const snapshot = fileOf(t, lines(REX))
  writeFileSync(`${snapshot}.new`, '[\n{"id":1,"na')
  utimesSync(`${snapshot}.new`, Date.now() / 1000, Date.now() / 1000 - 61)
  assert.equal(await list(await start(t, { snapshot })), `[${REX}]`)
  assert.ok(!existsSync(`${snapshot}.new`))
})

test('a FILE that was changed by hand is served and kept', async (t) => {
  const snapshot = fileOf(t, lines(REX))
  const petstore = await start(t, { snapshot })
  writeFileSync(snapshot, `[${REX}, ${TOM}]`)
  await lists(petstore, REX, TOM) // once the change is noticed
  writeFileSync(snapshot, lines(TOM))
  const added = await create(petstore) // before it is
  assert.equal(added, '{"id":8,"name":"new","categoryId":1}')
  assert.equal(readFileSync(snapshot, 'utf8'), lines(TOM, added))
  rmSync(snapshot)
  const next = await create(petstore)
  assert.equal(readFileSync(snapshot, 'utf8'), lines(TOM, added, next))
})

test('a FILE that was broken by hand stops additions until it is mended', async (t) => {
  const snapshot = fileOf(t, lines(REX))
  const petstore = await start(t, { snapshot })
  const broken = `[${REX}`
  writeFileSync(snapshot, broken)
  assert.equal(await create(petstore), '503 storage_failed')
  assert.equal(await isReady(petstore), false)
  assert.equal(await list(petstore), `[${REX}]`)
  assert.equal(readFileSync(snapshot, 'utf8'), broken)
  writeFileSync(snapshot, lines(TOM))
  await lists(petstore, TOM)
  assert.equal(await isReady(petstore), true)
})

test('a write begins again where FILE or FILE.new is changed meanwhile', async (t) => {
  const snapshot = fileOf(t)
  const petstore = await start(t, { snapshot })
  const tom = { id: 7, name: 'Tom', categoryId: 2, status: 'sold' }
  const later: Promise<Pet[]>[] = []
  const addLater = (): unknown => later.push(petstore.add([NEW]))
  const duringEachWrite = [
    () => {
      addLater()
      writeFileSync(snapshot, lines(TOM))
    },
    () => rmSync(`${snapshot}.new`),
    () => rmSync(snapshot),
    () => {},
    addLater,
  ]
  during(t, () => duringEachWrite.shift()?.())
  const first = await petstore.add([NEW])
  const second = await later[0]
  const third = await later[1]
  const added = [first, second, third].flat()
  assert.deepEqual(JSON.parse(readFileSync(snapshot, 'utf8')), [tom, ...added])
})

test('a pet that another server has taken over already is not added again', async (t) => {
  const snapshot = fileOf(t)
  const petstore = await start(t, { snapshot })
  let isFirst = true
  const takeOver = (): void => {
    if (!isFirst) return
    isFirst = false
    const pets = readFileSync(snapshot, 'utf8').slice(2, -3)
    writeFileSync(`${snapshot}.new`, lines(pets, TOM))
    renameSync(`${snapshot}.new`, snapshot)
  }
  during(t, () => {}, takeOver)
  assert.equal(await create(petstore, 'Rex'), REX)
  const next = await create(petstore)
  assert.equal(readFileSync(snapshot, 'utf8'), lines(REX, TOM, next))
  assert.match(next, /^\{"id":8,/)
})

test('two servers add to one FILE, and each lists what the other added', async (t) => {
  const snapshot = fileOf(t)
  const servers = [await start(t, { snapshot }), await start(t, { snapshot })]
  const adding = servers.flatMap((server, at) => {
    return Array.from({ length: 20 }, (_, count) => create(server, `${at} ${count}`))
  })
  const added = (await Promise.all(adding)).map((json) => JSON.parse(json))
  const pets = added.toSorted((one, other) => one.id - other.id)
  assert.deepEqual(
    pets.map(({ id }) => id),
    Array.from(pets, (_, at) => at + 1),
  )
  const expected = pets.map((pet) => JSON.stringify(pet))
  assert.equal(readFileSync(snapshot, 'utf8'), lines(...expected))
  for (const server of servers) await lists(server, ...expected)
})

test('a disk that fails makes creates 503, and changes nothing, until it is well', async (t) => {
  const folder = `${temporaryFolder(t)}/data`
  mkdirSync(folder)
  const petstore = await start(t, { snapshot: `${folder}/pets.json` })
  const kept: string[] = []
  for (const recover of [create, isReady]) {
    renameSync(folder, `${folder}.gone`)
    const answers = await Promise.all(Array.from({ length: 9 }, () => create(petstore)))
    assert.deepEqual(new Set(answers), new Set(['503 storage_failed']))
    assert.equal(await isReady(petstore), false)
    await assert.rejects(petstore.reset([]), { code: 'storage_failed' })
    await assert.rejects(petstore.add([NEW]), { code: 'storage_failed' })
    assert.equal(await list(petstore), `[${kept.join(',')}]`)
    renameSync(`${folder}.gone`, folder)
    const recovered = await recover(petstore)
    if (typeof recovered === 'string') kept.push(recovered)
    assert.equal(await isReady(petstore), true)
    assert.equal(readFileSync(`${folder}/pets.json`, 'utf8'), lines(...kept))
  }
})

test('a failure after FILE was replaced is outcome_unknown, and the pets are kept', async (t) => {
  const snapshot = fileOf(t)
  const petstore = await start(t, { snapshot })
  let isFailing = true
  replace(t, 'open', (original) => async (path, ...rest) => {
    const handle = await original(path, ...rest)
    if (isFailing && snapshot.startsWith(`${path}/`)) {
      t.mock.method(handle, 'sync', () => Promise.reject(new Error('made to fail')))
    }
    return handle
  })
  assert.equal(await create(petstore, 'Rex'), '503 outcome_unknown')
  await assert.rejects(petstore.add([NEW]), { code: 'outcome_unknown' })
  assert.equal(await isReady(petstore), false)
  isFailing = false
  assert.equal(await isReady(petstore), true)
  const next = await create(petstore)
  assert.match(next, /^\{"id":3,/)
  assert.equal(
    (await list(petstore)).slice(1, -1),
    readFileSync(snapshot, 'utf8').slice(2, -3).replace(/\n/g, ''),
  )
  isFailing = true
  await assert.rejects(petstore.reset([]), { code: 'outcome_unknown' })
  assert.equal(await list(petstore), '[]')
})

test('additions that wait for a write count toward maxStore', async (t) => {
  const snapshot = fileOf(t)
  const maxStore = 3 * (REX.length + 100)
  const petstore = await start(t, { snapshot, maxStore })
  writeFileSync(`${snapshot}.new`, '') // as if another server were writing
  const waiting = Array.from({ length: 3 }, () => petstore.add([{ name: 'Rex', categoryId: 1 }]))
  assert.equal(await create(petstore, ''), '507 store_full')
  rmSync(`${snapshot}.new`)
  await Promise.all(waiting)
  assert.equal(await create(petstore, ''), '507 store_full')
  await assert.rejects(petstore.reset([NEW, NEW, NEW, NEW]), { code: 'store_full' })
  await petstore.reset([])
  assert.equal(await create(petstore, 'Rex'), REX)
})

test('resets, additions and a close each wait for what came before', async (t) => {
  const snapshot = fileOf(t)
  const petstore = await start(t, { snapshot })
  const before = petstore.add([NEW, NEW])
  const reset = petstore.reset([{ id: 7, name: 'Tom', categoryId: 2, status: 'sold' }])
  const after = petstore.add([NEW])
  const closed = petstore.close()
  const ids = (await Promise.all([before, after])).flat().map(({ id }) => id)
  await Promise.all([reset, closed])
  const pets = JSON.parse(readFileSync(snapshot, 'utf8'))
  // Additions of one turn share a write, also those on both sides of a reset.
  assert.deepEqual([ids, pets.map(({ id }: { id: number }) => id)], [[1, 2, 3], [7]])
})
