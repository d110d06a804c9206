import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  statSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { copyFile, open as openFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { mock, test, type TestContext } from 'node:test'
import type { NewPet } from '../../src/pets/pet.ts'
import { openSnapshotStore } from '../../src/pets/snapshot-store.ts'
import type { PetStore } from '../../src/pets/store.ts'
import { folderOf, Random, temporaryFile } from '../support.ts'

const SEED = Number(process.env['SEED'] ?? randomInt(2 ** 31))
const PLAIN = '{"petstore":1,"pets":['
const PETS: NewPet[] = [
  { name: 'Rex', categoryId: 7, status: 'available' },
  { name: 'Zoë "the cat" 🐈', categoryId: 2n ** 63n - 1n },
  { name: '', categoryId: -1, status: 'sold' },
]
const LINES = [
  '{"id":1,"name":"Rex","categoryId":7,"status":"available"}',
  '{"id":2,"name":"Zoë \\"the cat\\" 🐈","categoryId":9223372036854775807}',
  '{"id":3,"name":"","categoryId":-1,"status":"sold"}',
]

/** Opens a file, and closes it at the end of the test. */
async function open(t: TestContext, path: string, reports: string[] = []): Promise<PetStore> {
  const report = (level: string, message: string) => reports.push(`${level}: ${message}`)
  const store = await openSnapshotStore({ path, maxBytes: 1e9, report })
  t.after(() => store.close())
  return store
}

function all(store: PetStore): string {
  return store.page({ limit: 1_000, after: 0 }).json
}

/** A file that a store wrote and closed. */
async function written(t: TestContext, pets: readonly NewPet[] = PETS): Promise<string> {
  const path = `${folderOf(t)}/pets.json`
  const store = await open(t, path)
  for (const pet of pets) await store.add(pet)
  await store.close()
  return path
}

test('the file is one JSON document, an animal a line, at any moment between two writes', async (t) => {
  const path = `${folderOf(t)}/pets.json`
  const store = await open(t, path)
  assert.deepEqual(JSON.parse(readFileSync(path, 'utf8')).pets, [])
  for (const [at, pet] of PETS.entries()) {
    await store.add(pet)
    const lines = readFileSync(path, 'utf8').trimEnd().split('\n')
    assert.equal(JSON.parse(lines.join('\n')).petstore, 1)
    assert.deepEqual(lines.slice(1), [...LINES.slice(0, at + 1).map((line, at) => (at > 0 ? `,${line}` : line)), ']}'])
  }
})

test('white space behind the closing line keeps the file from growing at every addition, until it is closed', async (t) => {
  const path = `${folderOf(t)}/pets.json`
  const store = await open(t, path)
  const sizes = new Set<number>()
  for (let count = 0; count < 16; count++) {
    await store.add({ name: 'Rex', categoryId: 7 })
    sizes.add(statSync(path).size)
  }
  assert.equal(sizes.size, 1)
  const text = readFileSync(path, 'utf8')
  assert.match(text, /\n\]\}\n +$/)
  writeFileSync(`${path}.copy`, text)
  assert.equal(all(await open(t, `${path}.copy`)), all(store))
  await store.close()
  assert.equal(readFileSync(path, 'utf8').slice(100), text.slice(100).trimEnd() + '\n')
})

test('what was added is there after the next start, and ids go on', async (t) => {
  const store = await open(t, await written(t))
  assert.equal(all(store), `[${LINES}]`)
  assert.deepEqual(store.page({ limit: 9, after: 0, status: 'sold' }).json, `[${LINES[2]}]`)
  assert.deepEqual(await store.add({ name: 'Tom', categoryId: 1 }), {
    ok: true,
    id: 4,
    json: '{"id":4,"name":"Tom","categoryId":1}',
  })
})

/** Counts, from now on, how often a file is synced. */
async function countSyncs(t: TestContext, folder: string): Promise<() => number> {
  const probe = await openFile(`${folder}/probe`, 'w')
  t.after(() => probe.close())
  const sync = t.mock.method(Object.getPrototypeOf(probe), 'datasync')
  return () => sync.mock.callCount()
}

test('animals that arrive while a write is under way go out together in the next one', async (t) => {
  const folder = folderOf(t)
  const store = await open(t, `${folder}/pets.json`)
  const syncs = await countSyncs(t, folder)
  const first = store.add(PETS[0] ?? assert.fail())
  await new Promise(setImmediate)
  await Promise.all([first, ...Array.from({ length: 50 }, () => store.add({ name: 'x', categoryId: 1 }))])
  assert.equal(syncs(), 2)
  assert.equal(store.size, 51)
})

test('clients that add again when they are answered are waited for, and go out in one write', async (t) => {
  const folder = folderOf(t)
  const store = await open(t, `${folder}/pets.json`)
  const syncs = await countSyncs(t, folder)
  t.mock.method(performance, 'now', () => 0) // a busy machine would end the wait by its milliseconds
  async function client(turns: number): Promise<void> {
    for (let round = 0; round < 10; round++) {
      await store.add({ name: 'x', categoryId: 1 })
      for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate)
    }
  }
  await Promise.all([0, 1, 2, 3, 4, 5, 6, 7].map(client))
  assert.equal(syncs(), 10)
  assert.equal(store.size, 80)
})

test('a client that does not add again is not waited for without end', async (t) => {
  const store = await open(t, `${folderOf(t)}/pets.json`)
  await Promise.all([store.add({ name: 'gone', categoryId: 1 }), store.add({ name: 'stays', categoryId: 1 })])
  for (let round = 0; round < 3; round++) assert.ok((await store.add({ name: 'stays', categoryId: 1 })).ok)
  assert.equal(store.size, 5)
})

test('additions keep their order with a reset among them, and are written before the end', async (t) => {
  const path = `${folderOf(t)}/pets.json`
  const store = await open(t, path)
  const add = (name: string) => store.add({ name, categoryId: 1 })
  const before = [add('a'), add('b')]
  const reset = store.reset([{ name: 'new', categoryId: 1 }])
  const after = [add('c'), add('d')]
  await before[0]
  const last = add('e')
  await store.close()
  assert.deepEqual(
    await Promise.all([...before, ...after, last].map(async (added) => (await added).ok)),
    Array(5).fill(true),
  )
  assert.equal(await reset, true)
  const again = await open(t, path)
  assert.deepEqual(again.page({ limit: 9, after: 0 }).json.match(/(?<="name":")\w+/g), ['new', 'c', 'd', 'e'])
})

test('a file written by hand is read, and written anew with a checksum', async (t) => {
  const path = `${folderOf(t)}/pets.json`
  const pretty = [
    '{ "name": "Rex", "id": 5, "extra": 1, "categoryId": 7.0 }',
    ', {"id":9,"name":"\\u0041","categoryId":9007199254740993}',
  ]
  writeFileSync(path, `${PLAIN}\r\n${pretty.join('\r\n')}\r\n]}`)
  const store = await open(t, path)
  assert.equal(all(store), '[{"id":5,"name":"Rex","categoryId":7},{"id":9,"name":"A","categoryId":9007199254740993}]')
  assert.deepEqual(await store.add({ name: 'Tom', categoryId: 1 }), {
    ok: true,
    id: 10,
    json: '{"id":10,"name":"Tom","categoryId":1}',
  })
  assert.match(
    readFileSync(path, 'utf8'),
    /^\{"petstore":1,"acknowledged":\{"bytes":\d+,"crc32":\d+\} *,"pets":\[\n\{"id":5/,
  )
})

test('a file larger than what is read at once is read whole, long lines among the short', async (t) => {
  const names = Array.from({ length: 300 }, (_, at) => (at === 150 ? 'long '.repeat(600_000) : `${at}é`.repeat(2_000)))
  const path = await written(
    t,
    names.map((name, categoryId) => ({ name, categoryId })),
  )
  assert.ok(statSync(path).size > 4 * 2 ** 20)
  const store = await open(t, path)
  assert.deepEqual(
    JSON.parse(all(store)).map((pet: NewPet) => pet.name),
    names,
  )
})

test('a torn end is cut off, and the report says how many bytes', async (t) => {
  const path = await written(t)
  const whole = readFileSync(path, 'utf8')
  for (const torn of [
    '',
    ',',
    ',{"id":4,"name":"To',
    `,{"id":4,"name":"Tom","categoryId":1}\n,{"id":5`,
    '\0'.repeat(5_000),
    ',{"id":4,"nam\n,{"id":5}\n]}\n',
  ]) {
    writeFileSync(path, whole.replace(/\]\}\n$/, torn))
    const reports: string[] = []
    const store = await open(t, path, reports)
    const kept = torn.includes('Tom') ? `[${[...LINES, '{"id":4,"name":"Tom","categoryId":1}']}]` : `[${LINES}]`
    assert.equal(all(store), kept, torn)
    const bytes = torn.includes('Tom') ? 8 : Buffer.byteLength(torn.trimEnd())
    assert.deepEqual(reports, [
      `warn: ${path}: the last ${bytes} bytes were cut off: the end of a write that was never acknowledged`,
    ])
    await store.close()
    assert.equal(JSON.stringify(JSON.parse(readFileSync(path, 'utf8')).pets.length), torn.includes('Tom') ? '4' : '3')
  }
})

/** Opens a file: it must hold what is expected, or be refused by line and reason and left as it was. */
async function isRefused(path: string, expected: string): Promise<boolean> {
  const before = readFileSync(path)
  let store: PetStore
  try {
    store = await openSnapshotStore({ path, maxBytes: 1e9, report() {} })
  } catch (error) {
    assert.match(String(error), /^Error: .*pets\.json: line \d+: [^\n]+$/)
    assert.deepEqual(readFileSync(path), before)
    return true
  }
  assert.equal(all(store), expected)
  await store.close()
  return false
}

test('a file cut anywhere keeps what was acknowledged, or is refused and left as it was', async (t) => {
  const path = await written(t)
  const whole = readFileSync(path)
  let refused = 0
  for (let cut = 0; cut < whole.length; cut++) {
    writeFileSync(path, whole.subarray(0, cut))
    if (await isRefused(path, `[${LINES}]`)) refused++
  }
  assert.equal(refused, whole.length - ']}\n'.length)
})

test(`a file with one byte changed keeps what was acknowledged, or is refused (SEED=${SEED})`, async (t) => {
  const random = new Random(SEED)
  const pets = Array.from({ length: 20 }, () => ({ name: random.string(), categoryId: random.int64() }))
  const path = await written(t, pets)
  const whole = readFileSync(path)
  const expected = JSON.stringify(
    pets.map(({ name, categoryId }, at) => ({ id: at + 1, name, categoryId: `${categoryId}` })),
  )
  let refused = 0
  for (let count = 0; count < 500; count++) {
    const changed = Buffer.from(whole)
    const at = random.integer(0, whole.length - 1)
    changed[at] = (changed[at] ?? 0) ^ random.integer(1, 255)
    writeFileSync(path, changed)
    if (await isRefused(path, expected.replace(/"(-?\d+)"\}/g, '$1}'))) refused++
  }
  assert.ok(refused > 450, `only ${refused} of 500 were refused`)
})

test('a damaged file is refused with its line and the reason', async (t) => {
  const path = `${folderOf(t)}/pets.json`
  const sealed = readFileSync(await written(t), 'utf8')
  const rows: [string, RegExp][] = [
    ['', /line 1: must be \{"petstore":1,"pets":\[, but the file is empty$/],
    ['[]', /line 1: must be \{"petstore":1,"pets":\[$/],
    ['{"petstore":2,"pets":[\n]}\n', /line 1: is of version 2; this server reads version 1$/],
    [`${PLAIN}\n${LINES[0]}\n${LINES[1]}\n]}\n`, /line 3: must begin with a comma$/],
    [
      `${PLAIN}\n${LINES[0]}\n,${LINES[0]}\n]}\n`,
      /line 3: must have an id above 1, the one before, of 15 digits at most$/,
    ],
    [
      `${PLAIN}\n{"name":"","categoryId":1}\n]}\n`,
      /line 2: must have an id above 0, the one before, of 15 digits at most$/,
    ],
    [
      `${PLAIN}\n{"id":1000000000000000,"name":"","categoryId":1}\n]}\n`,
      /line 2: must have an id above 0, the one before, of 15/,
    ],
    [`${PLAIN}\n${LINES[0]}]}\n`, /line 2: Unexpected non-whitespace character/],
    [`${PLAIN}\n${LINES[0]}]}`, /line 2: ends in the middle$/],
    [
      `${PLAIN}\n{"id":1.5,"name":"","categoryId":1}\n]}\n`,
      /line 2: must have an id above 0, the one before, of 15 digits at most$/,
    ],
    [`${PLAIN}\n{"id":1,"name":7,"categoryId":1}\n]}\n`, /line 2: name must be a string$/],
    [`${PLAIN}\n{"id":1,"name":\n]}\n`, /line 2: Unexpected end of JSON input$/],
    [`${PLAIN}\n${LINES[0]}\n]}\nmore\nand more\n`, /line 4: must begin with a comma$/],
    [sealed.replace(' ,', ','), /line 1: must be 100 bytes long, or/],
    [
      sealed.replace('Rex', 'Rey'),
      /line 1: its checksum is not that of the animals: .* make this line \{"petstore":1,"pets":\[/,
    ],
    [sealed.replace('"name":"",', ''), /line 4: name is required/],
    [
      sealed.slice(0, sealed.lastIndexOf(',{')),
      /line 3: .*: \d+ bytes of animals were acknowledged, and only \d+ are here$/,
    ],
  ]
  for (const [text, reason] of rows) {
    writeFileSync(path, text)
    await assert.rejects(
      open(t, path),
      (error: Error) => error.message.startsWith(path) && reason.test(error.message),
      text,
    )
    assert.equal(readFileSync(path, 'utf8'), text)
  }
  writeFileSync(
    path,
    Buffer.concat([Buffer.from(`${PLAIN}\n{"id":1,"name":"`), Buffer.from([0xff]), Buffer.from('"\n]}\n')]),
  )
  await assert.rejects(open(t, path), /line 2: must be UTF-8$/)
  assert.deepEqual(readdirSync(path.slice(0, -'/pets.json'.length)), ['pets.json'])
})

test('what is not a regular file, or in no folder, is refused', async (t) => {
  const folder = folderOf(t)
  mkdirSync(`${folder}/pets.json`)
  await assert.rejects(open(t, `${folder}/pets.json`), /pets\.json: must be a regular file$/)
  await assert.rejects(open(t, '/dev/null'), /^Error: \/dev\/null: /)
  await assert.rejects(open(t, `${folder}/none/pets.json`), /none\/pets\.json: ENOENT/)
})

test(
  'a file that may not be written is refused',
  { skip: process.getuid?.() === 0 && 'root may write it' },
  async (t) => {
    const path = await written(t)
    chmodSync(path, 0o400)
    await assert.rejects(open(t, path), /pets\.json: EACCES/)
  },
)

test('a file that fails to be written answers storage_failed, goes on reading, and mends itself', async (t) => {
  const folder = folderOf(t)
  const path = `${folder}/pets.json`
  const reports: string[] = []
  const store = await open(t, path, reports)
  const rex = PETS[0] ?? assert.fail()
  await store.add(rex)
  const probe = await openFile(`${folder}/probe`, 'w')
  t.after(() => probe.close())
  for (const method of ['write', 'datasync', 'truncate'] as const) {
    const full = Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' })
    const write = mock.method(Object.getPrototypeOf(probe), 'write', () => Promise.reject(full))
    const failing =
      method === 'write' ? write : mock.method(Object.getPrototypeOf(probe), method, () => Promise.reject(full))
    if (method !== 'write') write.mock.restore()
    const added = await Promise.all([store.add(rex), store.add(rex)])
    if (method !== 'truncate') assert.deepEqual(added, Array(2).fill({ ok: false, reason: 'storage_failed' }))
    failing.mock.restore()
    assert.equal(store.get(1), LINES[0])
    assert.equal(JSON.parse(readFileSync(path, 'utf8')).pets.length, store.size)
    const { size } = store
    assert.deepEqual(await store.add(rex), { ok: true, id: size + 1, json: LINES[0]?.replace('1', `${size + 1}`) })
    assert.equal(JSON.parse(readFileSync(path, 'utf8')).pets.length, size + 1)
  }
  assert.deepEqual(reports.slice(0, 2), [
    `error: ${path}: animals are not added while it cannot be written: ENOSPC: no space left on device`,
    `info: ${path}: it can be written again`,
  ])
})

test('a file that was removed answers storage_failed once, and is made again whole', async (t) => {
  const path = await written(t)
  const store = await open(t, path)
  unlinkSync(path)
  const tom: NewPet = { name: 'Tom', categoryId: 1 }
  assert.deepEqual(await store.add(tom), { ok: false, reason: 'storage_failed' })
  assert.equal(store.size, 3)
  assert.deepEqual(await store.add(tom), { ok: true, id: 4, json: '{"id":4,"name":"Tom","categoryId":1}' })
  assert.equal(JSON.parse(readFileSync(path, 'utf8')).pets.length, 4)
})

test('a file that somebody cut short answers storage_failed once, and is written anew whole', async (t) => {
  const path = await written(t)
  const store = await open(t, path)
  const tom: NewPet = { name: 'Tom', categoryId: 1 }
  await store.add(tom)
  for (const size of [0, 150]) {
    truncateSync(path, size)
    assert.deepEqual(await store.add(tom), { ok: false, reason: 'storage_failed' })
    assert.equal((await store.add(tom)).ok, true)
    assert.equal(JSON.parse(readFileSync(path, 'utf8')).pets.length, store.size)
  }
  truncateSync(path, 0)
  await store.close()
  assert.equal(JSON.parse(readFileSync(path, 'utf8')).pets.length, 6)
})

test('a file that somebody cut short before the first addition is not taken for whole', async (t) => {
  for (const size of [0, 150]) {
    const path = await written(t)
    const store = await open(t, path)
    truncateSync(path, size)
    assert.deepEqual(await store.add({ name: 'Tom', categoryId: 1 }), { ok: false, reason: 'storage_failed' })
    assert.equal((await store.add({ name: 'Tom', categoryId: 1 })).ok, true)
    await store.close()
    assert.equal(all(await open(t, path)), all(store))
  }
})

test('a file that somebody cut short while it could not be written is written anew whole', async (t) => {
  const path = await written(t)
  const store = await open(t, path)
  const restore = await failing(t, 'write')
  assert.deepEqual(await store.add({ name: 'Tom', categoryId: 1 }), { ok: false, reason: 'storage_failed' })
  truncateSync(path, 0)
  restore()
  assert.equal(await store.isWritable(), true)
  await store.close()
  assert.equal(all(await open(t, path)), `[${LINES}]`)
})

test('a reset that fails behind one whose folder could not be synced changes nothing', async (t) => {
  const path = await written(t)
  const store = await open(t, path)
  const [first, ...others] = PETS
  const restoreSync = await failing(t, 'sync', 1)
  assert.equal(await store.reset(others), true)
  restoreSync()
  const restoreWrite = await failing(t, 'write')
  await assert.rejects(async () => store.reset([first ?? assert.fail()]), /EIO/)
  restoreWrite()
  assert.equal(store.size, others.length)
  assert.equal((await store.add({ name: 'Tom', categoryId: 1 })).ok, true)
  await store.close()
  assert.equal(all(await open(t, path)), all(store))
})

test('another file in its place is not written to; back in place, it goes on', async (t) => {
  const path = await written(t)
  const store = await open(t, path)
  renameSync(path, `${path}.away`)
  writeFileSync(path, 'something else')
  const tom: NewPet = { name: 'Tom', categoryId: 1 }
  for (let times = 0; times < 2; times++) {
    assert.deepEqual(await store.add(tom), { ok: false, reason: 'storage_failed' })
  }
  assert.equal(readFileSync(path, 'utf8'), 'something else')
  renameSync(`${path}.away`, path)
  assert.equal((await store.add(tom)).ok, true)
})

test('a symbolic link leads to the file, and to its lock', async (t) => {
  const path = await written(t)
  symlinkSync(path, `${path}.link`)
  const store = await open(t, `${path}.link`)
  await store.add({ name: 'Tom', categoryId: 1 })
  await assert.rejects(open(t, path), /is in use by process \d+ on .+ since \d{4}-/)
  assert.equal(JSON.parse(readFileSync(path, 'utf8')).pets.length, 4)
})

test('closing waits for what is being added, and takes the lock away; nothing is added after', async (t) => {
  const path = `${folderOf(t)}/pets.json`
  const beside = path.replace(/pets.json$/, '.pets.json.petstore-new')
  writeFileSync(beside, 'left by a process that ended')
  const store = await open(t, path)
  const adding = store.add({ name: 'Tom', categoryId: 1 })
  await store.close()
  assert.equal((await adding).ok, true)
  assert.equal(JSON.parse(readFileSync(path, 'utf8')).pets.length, 1)
  assert.ok(!existsSync(`${path}.lock`) && !existsSync(beside))
  assert.deepEqual(await store.add({ name: 'Tom', categoryId: 1 }), { ok: false, reason: 'storage_failed' })
})

test('a file that cannot be made is refused, and leaves nothing behind', async (t) => {
  const folder = folderOf(t)
  const probe = await openFile(`${folder}/probe`, 'w')
  t.after(() => probe.close())
  const full = mock.method(Object.getPrototypeOf(probe), 'sync', () =>
    Promise.reject(new Error('ENOSPC: no space left')),
  )
  t.after(() => full.mock.restore())
  await assert.rejects(open(t, `${folder}/pets.json`), /pets\.json: ENOSPC: no space left$/)
  assert.deepEqual(readdirSync(folder), ['probe'])
})

test('a file written by hand that breaks off in its last line keeps the whole lines', async (t) => {
  const path = `${folderOf(t)}/pets.json`
  writeFileSync(path, `${PLAIN}\n${LINES[0]}\n,{"id":2,"na`)
  const reports: string[] = []
  assert.equal(all(await open(t, path, reports)), `[${LINES[0]}]`)
  assert.deepEqual(reports, [
    `warn: ${path}: the last 12 bytes were cut off: the end of a write that was never acknowledged`,
  ])
})

test('a file written by hand keeps its mode when it is written anew', async (t) => {
  const path = `${folderOf(t)}/pets.json`
  writeFileSync(path, `${PLAIN}\n${LINES[0]}\n]}\n`)
  chmodSync(path, 0o660)
  await open(t, path)
  assert.equal(statSync(path).mode & 0o777, 0o660)
})

test('a link to a file that is not there yet is followed', async (t) => {
  const folder = folderOf(t)
  symlinkSync('pets.json', `${folder}/link.json`)
  const store = await open(t, `${folder}/link.json`)
  await store.add({ name: 'Tom', categoryId: 1 })
  assert.equal(JSON.parse(readFileSync(`${folder}/pets.json`, 'utf8')).pets.length, 1)
  await assert.rejects(open(t, `${folder}/pets.json`), /is in use by/)
})

test('the greatest id is 999999999999999; nothing is added behind it', async (t) => {
  const path = `${folderOf(t)}/pets.json`
  writeFileSync(path, `${PLAIN}\n{"id":999999999999998,"name":"","categoryId":1}\n]}\n`)
  const store = await open(t, path)
  const added = await Promise.all([1, 2].map((categoryId) => store.add({ name: '', categoryId })))
  const json = '{"id":999999999999999,"name":"","categoryId":1}'
  assert.deepEqual(added, [
    { ok: true, id: 999999999999999, json },
    { ok: false, reason: 'store_full' },
  ])
})

test('a file that was removed is made again when the store is closed', async (t) => {
  const path = await written(t)
  const store = await open(t, path)
  unlinkSync(path)
  await store.close()
  assert.equal(JSON.parse(readFileSync(path, 'utf8')).pets.length, 3)
})

test('another file in its place when the store is closed is left alone, and the report says so', async (t) => {
  const path = await written(t)
  const reports: string[] = []
  const store = await open(t, path, reports)
  unlinkSync(path)
  writeFileSync(path, 'something else')
  await store.close()
  assert.equal(readFileSync(path, 'utf8'), 'something else')
  const message = 'what was acknowledged may not be in it: another file stands in its place'
  assert.deepEqual(reports, [`error: ${path}: ${message}`])
})

test('a copy made while animals are added holds all that were acknowledged before it', async (t) => {
  const path = `${folderOf(t)}/pets.json`
  const store = await open(t, path)
  let isAdding = true
  const adding = Array.from({ length: 8 }, async () => {
    while (isAdding) assert.equal((await store.add({ name: 'x'.repeat(500), categoryId: 7 })).ok, true)
  })
  for (let count = 0; count < 20; count++) {
    const { size } = store
    await copyFile(path, `${path}.copy`)
    const copy = await openSnapshotStore({ path: `${path}.copy`, maxBytes: 1e9, report() {} })
    assert.ok(copy.size >= size, `${copy.size} of ${size}`)
    assert.equal(copy.get(size), store.get(size))
    await copy.close()
  }
  isAdding = false
  await Promise.all(adding)
})

/** Lets a method of every open file fail, from its nth call on or until it is restored. */
async function failing(t: TestContext, method: 'write' | 'sync' | 'datasync' | 'chmod', calls = 0) {
  const probe = await openFile(temporaryFile(t, ''), 'r')
  const prototype = Object.getPrototypeOf(probe)
  await probe.close()
  const works: (...args: unknown[]) => Promise<unknown> = prototype[method]
  const { mock: failure } = t.mock.method(prototype, method, function (this: unknown, ...args: unknown[]) {
    if (failure.callCount() < calls) return works.apply(this, args)
    return Promise.reject(new Error('EIO: i/o error'))
  })
  return () => failure.restore()
}

test('reset() writes the file anew, with its mode, and adding goes on in it', async (t) => {
  const path = await written(t)
  chmodSync(path, 0o640)
  const store = await open(t, path)
  const { ino } = statSync(path)
  await store.reset([PETS[1] ?? assert.fail()])
  const line = LINES[1]?.replace('2', '1')
  const lines = () => readFileSync(path, 'utf8').trimEnd().split('\n').slice(1)
  assert.deepEqual(lines(), [line, ']}'])
  assert.notEqual(statSync(path).ino, ino)
  assert.equal(statSync(path).mode & 0o777, 0o640)
  await store.add(PETS[2] ?? assert.fail())
  assert.deepEqual(lines(), [line, `,${LINES[2]?.replace('3', '2')}`, ']}'])
  await store.close()
  assert.equal(all(await open(t, path)), all(store))
  assert.deepEqual(readdirSync(dirname(path)), ['pets.json', 'pets.json.lock'])
})

test('a process that reads the file during a reset sees it before or after, and whole', async (t) => {
  const path = await written(t)
  const store = await open(t, path)
  let isResetting = true
  const resetting = (async () => {
    for (let count = 0; count < 50; count++) await store.reset(count % 2 === 0 ? Array(200).fill(PETS[1]) : PETS)
    isResetting = false
  })()
  while (isResetting) {
    const { length } = JSON.parse(readFileSync(path, 'utf8')).pets
    assert.ok(length === 3 || length === 200, `${length} animals`)
    await new Promise(setImmediate)
  }
  await resetting
})

const FAILURES: readonly [what: string, method: Parameters<typeof failing>[1], calls: number][] = [
  ['the new file cannot be written', 'write', 0],
  ['its first line cannot be written', 'write', 2],
  ['the new file cannot be put on disk', 'sync', 0],
  ['its mode cannot be set', 'chmod', 0],
  ['the folder cannot be put on disk', 'sync', 1],
]
for (const [what, method, calls] of FAILURES) {
  test(`a reset during which ${what} changes nothing, or all: store and file agree`, async (t) => {
    const path = await written(t)
    const reports: string[] = []
    const store = await open(t, path, reports)
    const restore = await failing(t, method, calls)
    const rex: NewPet = { name: 'Rex', categoryId: 7, status: 'available' }
    let isReset = false
    try {
      isReset = await store.reset([rex])
    } catch (error) {
      assert.match(String(error), /^Error: EIO: i\/o error$/)
    }
    restore()
    const kept = isReset ? [LINES[0]] : LINES
    const inFile = () => JSON.parse(readFileSync(path, 'utf8')).pets.length
    assert.equal(all(store), `[${kept}]`)
    assert.equal(inFile(), kept.length)
    assert.equal(await store.isWritable(), true)
    assert.equal((await store.add({ name: 'Tom', categoryId: 1 })).ok, true)
    assert.equal(inFile(), kept.length + 1)
    await store.close()
    assert.deepEqual(readdirSync(dirname(path)), ['pets.json'])
    assert.equal(all(await open(t, path)), all(store))
    assert.deepEqual(reports, [])
  })
}

test('a reset makes a file that was removed, and mends one that fails', async (t) => {
  const path = await written(t)
  const reports: string[] = []
  const store = await open(t, path, reports)
  unlinkSync(path)
  assert.equal((await store.add({ name: 'Tom', categoryId: 1 })).ok, false)
  assert.equal(await store.reset(PETS), true)
  assert.equal(JSON.parse(readFileSync(path, 'utf8')).pets.length, 3)
  assert.equal((await store.add({ name: 'Tom', categoryId: 1 })).ok, true)
  assert.equal(JSON.parse(readFileSync(path, 'utf8')).pets.length, 4)
  assert.deepEqual(reports, [
    `error: ${path}: animals are not added while it cannot be written: ENOENT: no such file or directory, stat '${path}'`,
    `info: ${path}: it can be written again`,
  ])
})

test('a reset does not write over another file in its place, and changes nothing', async (t) => {
  const path = await written(t)
  const store = await open(t, path)
  renameSync(path, `${path}.away`)
  writeFileSync(path, 'something else')
  await assert.rejects(async () => store.reset([]), /another file stands in its place/)
  assert.equal(readFileSync(path, 'utf8'), 'something else')
  assert.equal(store.size, 3)
  renameSync(`${path}.away`, path)
  assert.equal(await store.reset([]), true)
  assert.deepEqual(JSON.parse(readFileSync(path, 'utf8')).pets, [])
})

test('isWritable() is false while the file cannot be written, and true once it can; then adding works at once', async (t) => {
  const path = await written(t)
  const reports: string[] = []
  const store = await open(t, path, reports)
  const tom: NewPet = { name: 'Tom', categoryId: 1 }
  for (const method of ['write', 'datasync'] as const) {
    const restore = await failing(t, method)
    assert.equal((await store.add(tom)).ok, false)
    assert.deepEqual(await Promise.all([1, 2, 3].map(() => store.isWritable())), [false, false, false])
    assert.equal((await store.add(tom)).ok, false)
    const { size } = store
    restore()
    assert.deepEqual(await Promise.all([1, 2, 3].map(() => store.isWritable())), [true, true, true])
    assert.equal(JSON.parse(readFileSync(path, 'utf8')).pets.length, size)
    assert.equal((await store.add(tom)).ok, true)
    assert.equal(JSON.parse(readFileSync(path, 'utf8')).pets.length, size + 1)
  }
  renameSync(path, `${path}.away`)
  writeFileSync(path, 'something else')
  assert.equal((await store.add(tom)).ok, false)
  assert.equal(await store.isWritable(), false)
  assert.equal(readFileSync(path, 'utf8'), 'something else')
  renameSync(`${path}.away`, path)
  assert.equal(await store.isWritable(), true)
  unlinkSync(path)
  assert.equal((await store.add(tom)).ok, false)
  assert.equal(await store.isWritable(), true)
  truncateSync(path, 0)
  assert.equal((await store.add(tom)).ok, false)
  assert.equal(await store.isWritable(), true)
  assert.equal(JSON.parse(readFileSync(path, 'utf8')).pets.length, store.size)
  assert.equal(reports.length, 10)
  for (const [at, report] of reports.entries()) {
    assert.match(report, at % 2 === 0 ? /^error: .* animals are not added while / : /^info: .* can be written again$/)
  }
  await store.close()
  assert.match(readFileSync(path, 'utf8'), /\n\]\}\n$/)
})

test('a failing store that is closed is not writable, and its file is left in order', async (t) => {
  const path = await written(t)
  const store = await open(t, path)
  const restore = await failing(t, 'write')
  assert.equal((await store.add({ name: 'Tom', categoryId: 1 })).ok, false)
  restore()
  const closing = store.close()
  assert.equal(await store.isWritable(), false)
  await closing
  await assert.rejects(async () => store.reset([]), { message: `${path}: the store is closed` })
  assert.equal(JSON.parse(readFileSync(path, 'utf8')).pets.length, 3)
})

test('asking isWritable() is enough to recover, after each failure and without an addition between', async (t) => {
  const path = await written(t)
  const store = await open(t, path, [])
  renameSync(path, `${path}.away`)
  writeFileSync(path, 'something else')
  assert.equal((await store.add({ name: 'Tom', categoryId: 1 })).ok, false)
  assert.equal(await store.isWritable(), false)
  unlinkSync(path)
  assert.equal(await store.isWritable(), true)
  assert.equal(JSON.parse(readFileSync(path, 'utf8')).pets.length, 3)
  assert.equal((await store.add({ name: 'Tom', categoryId: 1 })).ok, true)
})

test('a reset to more animals than are written at once writes all of them', async (t) => {
  const path = await written(t)
  const store = await open(t, path)
  const pets = Array.from({ length: 30 }, (_, at) => ({ name: `${at}é`.repeat(50_000), categoryId: at }))
  assert.equal(await store.reset(pets), true)
  await store.close()
  assert.ok(statSync(path).size > 3 * 2 ** 20)
  const again = await open(t, path)
  assert.equal(all(again), all(store))
  assert.equal(again.size, 30)
})

test('what stands where the new file is to be written fails the start and the reset, and changes nothing', async (t) => {
  const path = await written(t)
  const beside = path.replace(/pets.json$/, '.pets.json.petstore-new')
  mkdirSync(beside)
  await assert.rejects(open(t, path), /pets\.json: (?:EISDIR|EPERM)/)
  rmdirSync(beside)
  const store = await open(t, path)
  mkdirSync(beside)
  await assert.rejects(async () => store.reset([]), /EEXIST/)
  assert.equal(all(store), `[${LINES}]`)
  assert.equal(JSON.parse(readFileSync(path, 'utf8')).pets.length, 3)
  rmdirSync(beside)
  assert.equal(await store.reset([]), true)
})
