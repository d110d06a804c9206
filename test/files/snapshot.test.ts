import { mockTimers } from '../mock-timers.ts'
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import { type FileHandle, open as openFile, watch } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { createServer } from 'node:net'
import { dirname } from 'node:path'
import { test, type TestContext } from 'node:test'
import { crc32 } from 'node:zlib'
import { openSnapshotStore } from '../../src/files/snapshot-store.ts'
import { hasMembers } from '../../src/guards.ts'
import type { LocalStore } from '../../src/pets/store.ts'
import type { Added, NewPet } from '../../src/types.ts'
import { folderOf, Random, SEED, words } from '../support.ts'
import { mayMount } from '../system/packages.ts'

const REX: NewPet = { name: 'Rex', categoryId: 7, status: 'available' }
const PETS: NewPet[] = [
  REX,
  { name: 'Zoë "the cat" 🐈', categoryId: 2n ** 63n - 1n },
  { name: '', categoryId: -1 },
]
const LINES = [
  '{"id":1,"name":"Rex","categoryId":7,"status":"available"}',
  '{"id":2,"name":"Zoë \\"the cat\\" 🐈","categoryId":9223372036854775807}',
  '{"id":3,"name":"","categoryId":-1}',
]
const FILE = `[\n${LINES.join(',\n')}\n]\n`

const reports = new WeakMap<LocalStore, string[]>()

async function open(t: TestContext, path: string, maxBytes = 1e9): Promise<LocalStore> {
  const lines: string[] = []
  const report = (level: string, message: string) => lines.push(`${level}: ${message}`)
  const store = await openSnapshotStore(path, maxBytes, report)
  reports.set(store, lines)
  t.after(() => Promise.resolve(store.close()).catch(() => {}))
  return store
}

function filed(file?: string | Buffer, journal?: string | Buffer): string {
  const path = `${folderOf()}/pets.json`
  if (file !== undefined) fs.writeFileSync(path, file)
  if (journal !== undefined) fs.writeFileSync(`${path}.journal`, journal)
  return path
}

async function openFiled(t: TestContext, file?: string, journal?: string, maxBytes?: number) {
  const path = filed(file, journal)
  return { path, store: await open(t, path, maxBytes) }
}

function all(store: LocalStore): string[] {
  return [...store.values()]
}

function assertFailed(added: Added, reason = 'storage_failed'): void {
  assert.ok(!added.ok && added.cause instanceof Error)
  assert.equal(added.reason, reason)
}

function journalLine(...pets: string[]): string {
  const checked = pets.map((pet) => `,${pet}`).join('')
  return `["${crc32(checked).toString(16).padStart(8, '0')}"${checked}]\n`
}

/** Runs commands as somebody else in a folder. */
function sh(folder: string, commands: string): string {
  return execFileSync('sh', ['-ec', commands], { cwd: folder, encoding: 'utf8' })
}

/** Copies what a start would find if the server were killed now. */
function copyOf(path: string): string {
  const folder = folderOf()
  sh(dirname(path), `find . '(' -type f -o -type l ')' -exec cp -Pp {} '${folder}' ';'`)
  return `${folder}/pets.json`
}

test('journals each write as a line with a CRC-32, and writes the file at the end', async (t) => {
  const { path, store } = await openFiled(t)
  assert.equal(fs.readFileSync(path, 'utf8'), '[\n]\n')
  const added = [await store.add(REX)]
  added.push(...(await Promise.all(PETS.slice(1).map((pet) => store.add(pet)))))
  for (const [i, json] of LINES.entries()) assert.deepEqual(added[i], { ok: true, id: i + 1, json })
  const [first = '', ...rest] = LINES
  const journal = fs.readFileSync(`${path}.journal`, 'utf8')
  assert.equal(journal, journalLine(first) + journalLine(...rest))
  await store.close()
  assert.equal(fs.readFileSync(path, 'utf8'), FILE)
  assert.deepEqual(fs.readdirSync(dirname(path)), ['pets.json'])
  const again = await open(t, path)
  assert.deepEqual(all(again), LINES)
  assert.deepEqual(await again.add(REX), { ok: true, id: 4, json: LINES[0]?.replace('1', '4') })
})

test('folds a large journal as big as the file, and keeps what is added meanwhile', async (t) => {
  const { path, store } = await openFiled(t)
  mockTimers(t, 'setTimeout') // no quiet second passes
  const big = { name: 'x'.repeat(2 ** 16), categoryId: 1 }
  const sizeOf = (file: string) => fs.statSync(file, { throwIfNoEntry: false })?.size ?? 0
  const journalSize = () => sizeOf(`${path}.journal`)
  while (sizeOf(path) < 2 ** 21) {
    while (journalSize() < Math.max(sizeOf(path), 2 ** 20)) await store.add(big)
    while (journalSize() > 0) await new Promise(setImmediate)
  }
  while (sizeOf(path) < 2 ** 22) await store.add(big)
  assert.deepEqual(all(await open(t, copyOf(path))), all(store))
  await store.close()
  assert.deepEqual(all(await open(t, path)), all(store))
})

/** Counts how often FILE is begun anew. */
async function countFolds(t: TestContext): Promise<() => number> {
  const { mock } = t.mock.method(await prototypeOfFiles(), 'appendFile')
  return () => mock.calls.filter((call) => `${call.arguments}`.startsWith('[')).length
}

test('a journal that is as large as the file is folded once', async (t) => {
  const { store } = await openFiled(t)
  const folds = await countFolds(t)
  const first = store.add({ name: 'x'.repeat(2 ** 17), categoryId: 1 })
  await new Promise(setImmediate)
  const second = store.add(REX) // while the first one is written
  await first
  await Promise.all([second, store.add(REX)])
  await store.add(REX)
  assert.equal(folds(), 1)
  await store.close()
  assert.equal(folds(), 2)
})

test('a fold that fails is tried again when the journal is twice as large', async (t) => {
  const { path, store } = await openFiled(t)
  mockTimers(t, 'setTimeout') // no quiet second passes
  const files = await prototypeOfFiles()
  const noRoom = () => Promise.reject(Object.assign(new Error('full'), { code: 'ENOSPC' }))
  const { mock } = t.mock.method(files, 'appendFile', noRoom)
  const pet = { name: 'x'.repeat(2 ** 13), categoryId: 1 }
  for (let count = 0; count < 40; count++) assert.ok((await store.add(pet)).ok)
  assert.equal(mock.callCount(), 3) // at 64, 128 and 256 KiB
  mock.restore()
  while (!fs.readFileSync(path, 'utf8').includes('x')) assert.ok((await store.add(pet)).ok)
  assert.ok(store.size <= 65)
  assert.deepEqual(reports.get(store), [
    `error: ${path} cannot be replaced: full`, // not that it cannot be written: additions go on
    `info: ${path} can be replaced again`,
  ])
})

const DEEDS: [deed: string, act: (t: TestContext, store: LocalStore) => Promise<unknown>][] = [
  ['is reset', async (_, store) => store.reset(PETS)],
  ['is closed', async (_, store) => store.close()],
  ['cannot write', (t, store) => failDisk(t, ['write']).then(() => store.add(REX))],
]
for (const [deed, act] of DEEDS) {
  test(`a store that ${deed} while it folds has the same pets after a restart`, async (t) => {
    const { path, store } = await openFiled(t)
    const big = { name: 'x'.repeat(2 ** 20), categoryId: 1 }
    await Promise.all(Array.from({ length: 20 }, () => store.add(big)))
    await act(t, store)
    t.mock.restoreAll()
    await store.close()
    const errors = reports.get(store)?.filter((line) => line.startsWith('error: '))
    assert.equal(errors?.length, deed === 'cannot write' ? 1 : 0, errors?.join())
    assert.deepEqual(all(await open(t, path)), all(store))
  })
}

test('folds a small journal after each quiet second', { timeout: 60_000 }, async (t) => {
  const { path, store } = await openFiled(t)
  for (let times = 0; times < 2; times++) {
    const changes = watch(dirname(path))
    const added = await store.add(REX)
    assert.ok(added.ok)
    for await (const _ of changes) {
      if (fs.readFileSync(path, 'utf8').includes(added.json)) break
    }
  }
})

const FIVE = '{"id":5,"name":"Rex","categoryId":7}'
const SIX = FIVE.replace('5', '6')
const INDENTED = JSON.stringify(JSON.parse(`[${FIVE},${SIX}]`), null, 2)
const NINE = '{"id":9,"name":"","categoryId":1}'
const NESTED = '{"x":{"y":["]",1]},"name":"\\u0041},]","id":2,\n"categoryId":7.0}'
const LAYOUTS: [layout: string, file: string, pets: string[]][] = [
  ['an empty array', '[]', []],
  ['an empty array with spaces', ' \r\n\t[\n\n ]\n\n', []],
  ['a pet a line, as it is written', FILE, LINES],
  ['a pet a line, but no newline at the end', FILE.trimEnd(), LINES],
  ['all on one line', `[${LINES.join(',')}]`, LINES],
  ['a member a line, as by jq', INDENTED, [FIVE, SIX]],
  [
    'lines with escapes, spaces and another order',
    `[\n${FIVE.replace('Rex', '\\u0041')},\n{ "categoryId": 7, "name": "Rex", "id": 6 },\n` +
      `${SIX.replace('6', '7')}\n]`,
    [FIVE.replace('Rex', 'A'), SIX, SIX.replace('6', '7')],
  ],
  [
    'other lines after ours',
    `[\n${FIVE},\n{"id":6,\n"name":"Rex","categoryId":7}, ${NINE} ]`,
    [FIVE, SIX, NINE],
  ],
  [
    'nested members, integers with a fraction, and gaps in the ids',
    `[ ${NESTED}\r\n,\r\n{"id":9,"categoryId":9007199254740993,"name":""} ]`,
    ['{"id":2,"name":"A},]","categoryId":7}', NINE.replace('1', '9007199254740993')],
  ],
]
for (const [layout, file, pets] of LAYOUTS) {
  test(`reads any array of pets with ascending ids: ${layout}`, async (t) => {
    const store = await open(t, filed(file))
    assert.deepEqual(all(store), pets)
    const added = await store.add(REX)
    const lastId: number = pets.length === 0 ? 0 : JSON.parse(pets.at(-1) ?? '').id
    assert.equal(added.ok && added.id, lastId + 1)
  })
}

const ODD_NAMES = words(String.raw`Rex Zoë🐈 \u0041 \/ \n \" \ud800 \x "`)
const NAMES = [...ODD_NAMES, '', '\t', '\ufffd']
const NUMBERS = ['0', '-0', '7', '-7', '01', '1.0', '1e3', '7.5', '1e400', '"7"', 'null']
const BOUNDS = [10n ** 15n, 2n ** 53n, 89n * 10n ** 17n, 9n * 10n ** 18n, 10n ** 19n, 2n ** 63n]
for (const bound of BOUNDS) {
  NUMBERS.push(...[-1n, 0n, 1n].flatMap((step) => [`${bound + step}`, `${step - bound}`]))
}
const MEMBERS: [member: string, values: string[]][] = [
  ['id', NUMBERS],
  ['name', NAMES.map((name) => `"${name}"`)],
  ['categoryId', NUMBERS],
  ['status', ['"available"', '"sold"', '"all"', '"toString"', '""', 'null', '7']],
]
for (const [member, values] of MEMBERS) {
  test(`reads any ${member} on a line of its own as in any other layout`, async (t) => {
    const path = filed()
    const read = async (file: string) => {
      fs.writeFileSync(path, file)
      const store = await open(t, path).catch(() => undefined)
      await store?.close()
      return store === undefined ? 'refused' : all(store)
    }
    for (const value of values) {
      const pet = { id: '8', name: '"Rex"', categoryId: '7', status: '"pending"', [member]: value }
      const line = `{${Object.entries(pet).map((one) => `"${one[0]}":${one[1]}`)}}`
      assert.deepEqual(await read(`[\n${line}\n]\n`), await read(`[${line}]`), line)
    }
  })
}

test('reads files of several MiB, with a long line among short ones', async (t) => {
  const path = filed()
  const names = Array.from({ length: 300 }, (_, at) => `${at}é`.repeat(2_000))
  names[150] = 'long '.repeat(600_000)
  const json = names.map((name, at) => JSON.stringify({ id: at + 1, name, categoryId: at }))
  const lines = json.map((pet) => journalLine(pet)).join('')
  const files = [[`[\n${json.join(',\n')}\n]`], [`[\n${json}\n]`], ['[]', lines]]
  for (const [file = '', journal = ''] of files) {
    fs.writeFileSync(path, file)
    fs.writeFileSync(`${path}.journal`, `${journal}torn`)
    const store = await open(t, path)
    assert.deepEqual(all(store), json)
    assert.match(`${reports.get(store)}`, /cut off 4 bytes/)
    await store.close()
  }
})

const ID_RULE = /json: from line 1 on: in item 1: id must be an integer from 1 to 999999999999999$/
const NOT_UTF8 = Buffer.from('[{"id":1,"name":"\xff","categoryId":1}]', 'latin1')
const NOT_UTF8_LINES = Buffer.from(FILE.replace('Rex', '\xff'), 'latin1')
const SAME_ID = `[\n${LINES[0]},\n${LINES[0]},\n${LINES[1]}\n]`
const ON_ONE_LINE = SAME_ID.replaceAll('\n', ' ')
const NAMELESS = `[\n${LINES[0]},\n{\n"id":2,"name":7,"categoryId":1}\n]`
const MAX = LINES[0]?.replace('Rex', 'Max') ?? ''
const IS_MISSING = /journal: line 1: pet 4 must come before pet 5, and is missing$/
const FOUR = '{"id":4,"name":"Tom","categoryId":1}'
const MORE = [...LINES, FOUR]
const LINE = journalLine(FOUR)
const MORE_LINES = [4, 5, 6].map((id) => journalLine(FOUR.replace('4', `${id}`))).join('')
const isDamaged = (line: number) =>
  new RegExp(`journal: line ${line}: it is damaged, .* which can only tear the last one: restore`)

/** Text with one bit changed in each of these lines. */
function flipped(text: string, ...lines: number[]): string {
  const change = (line: string, at: number) => (lines.includes(at) ? line.replace('T', 'V') : line)
  return text.split('\n').map(change).join('\n')
}

const DAMAGES: [what: string, file: string | Buffer, reason: RegExp, journal?: string | Buffer][] =
  [
    ['an empty file', '', /json: from line 1 on: Unexpected end of JSON input$/],
    ['an object', '{}', /json: from line 1 on: it must be a JSON array of pets$/],
    ['a file that is cut', FILE.slice(0, -3), /json: from line 5 on: Expected/],
    ['a second value', `${FILE}]`, /json: from line 6 on: Unexpected/],
    ['a word after the array', `${FILE}end`, /json: from line 6 on: Unexpected/],
    ['a second array', FILE + FILE, /json: from line 6 on: Unexpected/],
    ['a missing comma', FILE.replace(',\n', '\n'), /json: from line 3 on: Expected/],
    ['an item that is no pet', '[\n1,\n2]', /json: line 2: a pet must be an object$/],
    ['a comma after all', `${FILE.trimEnd()},\n`, /json: from line 5 on: Unexpected/],
    ['a comma before all', FILE.replace('[', '[,'), /json: from line 1 on: it is not/],
    ['a last comma', `[\n${LINES[0]},\n]`, /json: from line 3 on: it is not valid JSON$/],
    ['a pet without id', '[{"name":"","categoryId":1}]', ID_RULE],
    ['an id that is too great', '[{"id":1000000000000000,"name":"","categoryId":1}]', ID_RULE],
    ['an id again on a line', SAME_ID, /json: line 3: the id 1 must be above 1, the one before$/],
    ['an id again', ON_ONE_LINE, /json: from line 1 on: in item 2: the id 1 must be above 1/],
    [
      'a pet that is not valid',
      NAMELESS,
      /json: from line 3 on: in item 2: name must be a string$/,
    ],
    ['bytes that are not UTF-8', NOT_UTF8, /json: from line 1 on: it is not valid UTF-8$/],
    ['a line that is not UTF-8', NOT_UTF8_LINES, /json: from line 2 on: it is not valid UTF-8$/],
    ['a journal with a gap', FILE, IS_MISSING, journalLine(FIVE)],
    ['another pet', FILE, /journal: line 1: pet 1 differs from before$/, journalLine(MAX)],
    ['an item that is no pet', FILE, /journal: line 1: name is required/, journalLine('{"id":4}')],
    ['a line that is not JSON', FILE, /journal: line 1: Expected/, journalLine('{"id":4')],
    // A write is one line, so a power cut cannot do these.
    ['a damaged line before another', FILE, isDamaged(1), `["00000000",${FOUR}]\n${LINE}`],
    ['zeros before another line', FILE, isDamaged(1), `${'\0'.repeat(99)}\n${LINE}`],
    ['two damaged lines', FILE, isDamaged(2), `${LINE}["00000000",{}]\n["00000000",{}]\n`],
    ['a damaged line before the start of one', FILE, isDamaged(2), `${LINE}["00000000",{}]\n["00`],
    ['a bad bit in each of the last lines', FILE, isDamaged(2), flipped(MORE_LINES, 1, 2)],
    ['a journal in CRLF', FILE, isDamaged(1), MORE_LINES.replaceAll('\n', '\r\n')],
    ['a journal in UTF-16', FILE, isDamaged(1), Buffer.from(MORE_LINES, 'utf16le')],
    ['a journal that was laid out', FILE, isDamaged(1), JSON.stringify([[1, { id: 4 }]], null, 2)],
  ]
for (const [what, file, reason, journal] of DAMAGES) {
  test(`refuses ${what} with the place and the reason, and touches nothing`, async (t) => {
    const path = filed(file, journal)
    await assert.rejects(open(t, path), reason)
    const names = journal === undefined ? ['pets.json'] : ['pets.json', 'pets.json.journal']
    assert.deepEqual(fs.readdirSync(dirname(path)), names)
    assert.deepEqual(fs.readFileSync(path), Buffer.from(file))
    if (journal !== undefined)
      assert.deepEqual(fs.readFileSync(`${path}.journal`), Buffer.from(journal))
  })
}

const JOURNALS: [what: string, journal: string, pets: string[], torn?: string][] = [
  ['a complete line', LINE, MORE],
  ['a line older than the file', journalLine(...LINES), LINES],
  ['a line older in part', journalLine(LINES[2] ?? '', FOUR), MORE],
  ['a torn line that has its newline', `${LINE}["00000000",{}]\n`, MORE, '["00000000",{}]\n'],
  ['a bad bit in the last line', flipped(LINE, 0), LINES, flipped(LINE, 0)],
  ['a torn line at the end', `${LINE}["00`, MORE, '["00'],
  ['a line without its newline', LINE.trimEnd(), LINES, LINE.trimEnd()],
  ['zeros', '\0'.repeat(5_000), LINES, '\0'.repeat(5_000)],
]
for (const [what, journal, pets, torn] of JOURNALS) {
  test(`reads a journal's complete lines, and cuts off and keeps the rest: ${what}`, async (t) => {
    const path = filed(FILE, journal)
    fs.chmodSync(`${path}.journal`, 0o600)
    const store = await open(t, path)
    assert.deepEqual(all(store), pets)
    const [kept, ...more] = fs.readdirSync(dirname(path)).filter((name) => name.includes('.torn-'))
    assert.deepEqual(more, [])
    if (torn === undefined) assert.deepEqual([kept, reports.get(store)], [undefined, []])
    else {
      const keptAs = `${dirname(path)}/${kept}`
      assert.equal(fs.readFileSync(keptAs, 'utf8'), torn)
      assert.equal(fs.statSync(keptAs).mode & 0o777, 0o600)
      const cut = `cut off ${torn.length} bytes after the last complete write, kept as ${keptAs}`
      assert.deepEqual(reports.get(store), [`warn: ${path}.journal: ${cut}`])
    }
    await store.add(REX)
    await store.close()
    assert.deepEqual(all(await open(t, path)).slice(0, -1), pets)
  })
}

test(`reads a journal up to a cut or changed byte, or refuses it (SEED=${SEED})`, async (t) => {
  const random = new Random(SEED)
  const json = (id: number) => JSON.stringify({ id, name: random.string(), categoryId: id })
  const pets = Array.from({ length: 9 }, (_, at) => json(at + 1))
  const whole = Buffer.from(pets.map((pet) => journalLine(pet)).join(''))
  const path = filed()
  for (let count = 0; count < 200; count++) {
    const at = random.integer(0, whole.length - 1)
    const changed = random.chance(0.5) ? whole.subarray(0, at) : Buffer.from(whole)
    if (changed.length === whole.length) changed[at] = (changed[at] ?? 0) ^ random.integer(1, 255)
    fs.writeFileSync(path, '[]')
    fs.writeFileSync(`${path}.journal`, changed)
    const isIn = whole.subarray(0, at).toString('latin1').split('\n').length - 1
    const store = await open(t, path).catch((error: Error) => error.message)
    if (typeof store === 'string') assert.match(store, /json\.journal: line [1-9]: it is damaged/)
    else {
      assert.deepEqual(all(store), pets.slice(0, isIn))
      assert.ok(changed.length < whole.length || isIn >= 7) // 7: its newline
    }
    if (typeof store !== 'string') await store.close()
  }
})

test('follows links to the file and to its lock as the system does, but no loop', async (t) => {
  const folder = folderOf()
  sh(folder, 'ln -s later.json link.json; ln -s loop loop; mkdir -p real/inner links')
  sh(`${folder}/links`, 'ln -s ../real/inner; ln -s inner/../pets.json')
  await (await open(t, `${folder}/link.json`)).add(REX)
  await assert.rejects(open(t, `${folder}/later.json`), /in use by process \d+ on ./)
  await assert.rejects(open(t, `${folder}/loop`), /ELOOP: too many/)
  await (await open(t, `${folder}/links/pets.json`)).close()
  assert.deepEqual(fs.readdirSync(`${folder}/real`), ['inner', 'pets.json'])
})

test("leaves the user's own files alone, whatever they are a copy of", async (t) => {
  const { path, store } = await openFiled(t, FILE)
  for (const end of ['new', 'old', 'bak']) fs.writeFileSync(`${path}.${end}`, end)
  await store.reset(PETS)
  await store.close()
  await (await open(t, path)).close()
  for (const end of ['new', 'old', 'bak']) {
    assert.equal(fs.readFileSync(`${path}.${end}`, 'utf8'), end)
  }
})

type Operation = 'appendFile' | 'write' | 'sync' | 'datasync' | 'truncate'

/** Lets operations on all open files fail, as only a broken disk does; returns what ends it. */
async function failDisk(t: TestContext, operations: Operation[], code = 'EIO', times = Infinity) {
  const files = await prototypeOfFiles()
  const fail = () => Promise.reject(Object.assign(new Error(`${code}: it fails`), { code }))
  const mocks = operations.map((one) => t.mock.method(files, one, fail, { times }).mock)
  return () => mocks.forEach((mock) => mock.restore())
}

async function prototypeOfFiles(): Promise<FileHandle> {
  const probe = await openFile(filed(''), 'r')
  await probe.close()
  return Object.getPrototypeOf(probe)
}

test('a start that cannot empty the journal leaves a store that works', async (t) => {
  const path = filed(FILE, LINE)
  await failDisk(t, ['datasync'], 'ENOSPC', 1)
  const store = await open(t, path)
  assert.deepEqual(reports.get(store), [`warn: ${path} cannot be replaced: ENOSPC: it fails`])
  assert.equal((await store.add(REX)).ok, true)
  assert.equal(store.size, 5)
  assert.deepEqual(all(await open(t, copyOf(path))), all(store))
})

test('a start leaves a file that it can replace as it is', async (t) => {
  const { path } = await openFiled(t, INDENTED)
  assert.equal(fs.readFileSync(path, 'utf8'), INDENTED)
  assert.equal(fs.existsSync(`${path}.petstore-new`), false)
})

test('an addition beyond what may wait for a disk that hangs fails at once', async (t) => {
  const { path, store } = await openFiled(t, FILE, undefined, 4 * 2 ** 20)
  const files = await prototypeOfFiles()
  let release = () => {}
  const released = new Promise<void>((resolve) => (release = resolve))
  t.mock.method(files, 'datasync', () => released)
  const big = { name: 'x'.repeat(2 ** 16), categoryId: 1 }
  let refused = 0
  const adding = Array.from({ length: 100 }, async () => {
    const added = await store.add(big)
    if (!added.ok) refused++
    return added
  })
  while (refused === 0) await new Promise(setImmediate)
  release()
  const added = await Promise.all(adding)
  assert.equal(refused, 84) // 16 of them take more than 1 MiB, a quarter of what the store may take
  for (const one of added.slice(16)) assertFailed(one)
  assert.equal(store.size, 3 + 16)
  assert.match(`${reports.get(store)}`, /^warn: .*json: 10\d+ bytes of pets wait to be written/)
  assert.equal((await store.add(big)).ok, true)
  assert.deepEqual(all(await open(t, copyOf(path))), all(store))
})

test('says once that writes are slow, as the first one lasts, and when it is over', async (t) => {
  const { path, store } = await openFiled(t, FILE)
  mockTimers(t, 'setTimeout')
  const files = await prototypeOfFiles()
  for (let times = 0; times < 2; times++) {
    let release = () => {}
    const released = new Promise<void>((resolve) => (release = resolve))
    const { mock } = t.mock.method(files, 'datasync', () => released)
    const adding = store.add(REX)
    while (mock.callCount() === 0) await new Promise(setImmediate)
    t.mock.timers.tick(1_000)
    const slow = `warn: ${path} cannot be written quickly: a write takes more than 1 s`
    assert.deepEqual(reports.get(store), [slow])
    release()
    assert.ok((await adding).ok)
    mock.restore()
  }
  for (let times = 0; times < 2; times++) await store.add(REX)
  const isOver = `info: ${path} can be written quickly again`
  assert.deepEqual(reports.get(store)?.slice(1), [isOver])
})

test('additions that waited are written in lines of about a MiB', async (t) => {
  const { path, store } = await openFiled(t)
  const big = { name: 'x'.repeat(2 ** 17), categoryId: 1 }
  const adding = Array.from({ length: 40 }, () => store.add(big))
  await adding[38]
  const lines = fs.readFileSync(`${path}.journal`, 'utf8').trimEnd().split('\n')
  assert.ok(lines.length > 1)
  for (const line of lines) assert.ok(line.length < 1.2 * 2 ** 20, `${line.length}`)
  await Promise.all(adding)
})

// decisions.test.ts has one whose folder is away.
const OUTAGES: [what: string, code: string, ...operations: Operation[]][] = [
  ['the disk is full', 'ENOSPC', 'write', 'appendFile'],
  ['writes fail', 'EIO', 'write', 'appendFile'],
  ['syncs fail', 'EIO', 'datasync'],
]
for (const [what, code, ...operations] of OUTAGES) {
  test(`while ${what}, additions fail and reads go on; afterwards both work`, async (t) => {
    const { path, store } = await openFiled(t, FILE)
    const end = await failDisk(t, operations, code)
    assertFailed(await store.add(REX))
    const copy = copyOf(path)
    for (let times = 0; times < 2; times++) {
      for (const added of await Promise.all([store.add(REX), store.add(REX)])) assertFailed(added)
      assert.deepEqual(await Promise.all([store.isWritable(), store.isWritable()]), [false, false])
      await assert.rejects(async () => store.reset([]), new RegExp(code))
    }
    assert.deepEqual(all(store), LINES)
    end()
    assert.deepEqual(all(await open(t, copy)), LINES)
    assert.equal(await store.isWritable(), true)
    assert.equal((await store.add(REX)).ok, true)
    assert.deepEqual(reports.get(store), [
      `error: ${path} cannot be written: ${code}: it fails`,
      `error: ${path} cannot be repaired yet: ${code}: it fails`,
      `info: ${path} can be written again`,
    ])
    await store.close()
    assert.equal((await open(t, path)).size, 4)
  })
}

test('says once that a disk is full, although it has room for a probe', async (t) => {
  const { path, store } = await openFiled(t, FILE)
  const files = await prototypeOfFiles()
  const { write } = files
  const { mock } = t.mock.method(files, 'write', function (this: unknown, ...args: Buffer[]) {
    if (args[0] && args[0].length < 8_000) return Reflect.apply(write, this, args)
    return Promise.reject(Object.assign(new Error('no room'), { code: 'ENOSPC' }))
  })
  const large = { ...REX, name: 'x'.repeat(10_000) }
  for (let times = 0; times < 3; times++) {
    assertFailed(await store.add(large))
    assert.equal(await store.isWritable(), true)
  }
  mock.restore()
  assert.equal((await store.add(large)).ok, true)
  assert.deepEqual(reports.get(store), [
    `error: ${path} cannot be written: no room`,
    `info: ${path} can be written again`,
  ])
})

test('says that a pet may have been added where it cannot be cut off, and shows it', async (t) => {
  const { path, store } = await openFiled(t, FILE)
  const end = await failDisk(t, ['datasync', 'truncate', 'sync'])
  assertFailed(await store.add(REX), 'outcome_unknown')
  assert.equal(store.size, 4)
  assertFailed(await store.add(REX)) // never written
  const copy = copyOf(path)
  end()
  assert.deepEqual(all(await open(t, copy)), all(store))
  assert.equal(await store.isWritable(), true)
  assert.ok((await store.add(REX)).ok)
  assert.deepEqual(all(await open(t, copyOf(path))), all(store))
  await failDisk(t, ['truncate', 'sync'])
  await assert.rejects(async () => store.reset([]), /EIO/)
  assertFailed(await store.add(REX)) // never written
})

test('says that a pet may have been added where the journal cannot be removed', async (t) => {
  const { path, store } = await openFiled(t, FILE)
  const end = await failDisk(t, ['datasync', 'truncate'])
  const { unlink } = fs.promises
  const { mock } = t.mock.method(fs.promises, 'unlink', async (path: string) => {
    if (path.endsWith('.journal')) throw new Error('it fails')
    await unlink(path)
  })
  const restore = () => {
    mock.restore()
    syncBuiltinESMExports()
  }
  syncBuiltinESMExports()
  t.after(restore)
  assertFailed(await store.add(REX), 'outcome_unknown')
  end()
  restore()
  assert.deepEqual(all(await open(t, copyOf(path))), all(store))
})

test('leaves no part of a snapshot on a full disk, and goes on to add pets', async (t) => {
  const { path, store } = await openFiled(t, FILE)
  await failDisk(t, ['appendFile'], 'ENOSPC')
  await assert.rejects(async () => store.reset(PETS), /ENOSPC/)
  assert.ok(!fs.existsSync(`${path}.petstore-new`))
  assert.equal((await store.add(REX)).ok, true)
  assert.deepEqual(all(await open(t, copyOf(path))), all(store))
})

test('repairs the files once at a time, however many ask whether they are writable', async (t) => {
  const { path, store } = await openFiled(t, FILE)
  await failDisk(t, ['datasync'])
  await store.add(REX)
  const changed: (string | null)[] = []
  const watcher = fs.watch(dirname(path), (_, name) => changed.push(name))
  await Promise.all(Array.from({ length: 40 }, () => store.isWritable()))
  fs.writeFileSync(`${dirname(path)}/done`, '')
  while (!changed.includes('done')) await once(watcher, 'change')
  watcher.close()
  const replaced = changed.filter((name) => name === 'pets.json')
  assert.equal(replaced.length, 1)
})

const removeLock = (path: string) => sh(dirname(path), 'rm pets.json.lock*')

const STRANGERS: [deed: string, commands: string, isKept?: true][] = [
  ['removes the file', 'rm pets.json'],
  ['replaces the file', 'echo theirs > x; mv x pets.json', true],
  ['edits the file in its place', 'sed s/Rex/Tom/ pets.json > x; cat x > pets.json', true],
  ['moves the file, and leaves a link to it', 'mv pets.json x; ln -s x pets.json', true],
  ['cuts the file', 'head -c 9 pets.json > x; cat x > pets.json', true],
  ['removes the journal', 'rm pets.json.journal'],
  ['cuts the journal', 'printf [ > pets.json.journal'],
  ['adds to the journal', 'echo theirs >> pets.json.journal'],
  ['replaces the journal', 'echo theirs > x; mv x pets.json.journal'],
  ['replaces the journal by a copy', 'cp pets.json.journal x; mv x pets.json.journal'],
  [
    'replaces the journal by one of the size that it is to have',
    'cat pets.json.journal > x; tail -n 1 pets.json.journal >> x; mv x pets.json.journal',
  ],
  ['moves the journal, and leaves a link', 'mv pets.json.journal x; ln -s x pets.json.journal'],
  ['replaces the journal by a pipe', 'rm pets.json.journal; mkfifo pets.json.journal'],
  ['removes all', 'rm pets.json pets.json.journal'],
  ['moves the folder, and makes it again', 'mv "$PWD" "$PWD-moved"; mkdir "$PWD"'],
]
const WHEN = ['at the next addition', 'at the end', 'at the end, if none was added'] as const
for (const [deed, commands, isKept = false] of STRANGERS) {
  for (const then of WHEN) {
    test(`loses nothing to somebody who ${deed}: it is written again ${then}`, async (t) => {
      const { path, store } = await openFiled(t, FILE)
      if (then !== 'at the end, if none was added') await store.add(REX)
      sh(dirname(path), commands)
      if (then === 'at the next addition') {
        let added = await store.add(REX)
        while (!added.ok) {
          assertFailed(added) // the first one, as the store notices the change
          added = await store.add(REX)
        }
        assert.deepEqual(all(await open(t, copyOf(path))), all(store))
        await assert.rejects(open(t, path), /in use by process/)
      }
      await store.close()
      assert.doesNotMatch(`${fs.readdirSync(dirname(path))}`, /pets\.json\.lock/)
      assert.deepEqual(all(await open(t, path)), all(store))
      const kept = fs.readdirSync(dirname(path)).filter((name) => /^pets\.json\.\d+$/.test(name))
      const keptAs = path.replace('pets.json', kept[0] ?? '')
      const warning = `warn: ${path} was somebody else's file: kept as ${keptAs}`
      const warnings = reports.get(store)?.filter((line) => line.startsWith('warn: '))
      assert.deepEqual([kept.length, warnings], isKept ? [1, [warning]] : [0, []])
    })
  }
}

test('nothing more is written to a journal that others wrote to', async (t) => {
  const { path, store } = await openFiled(t, FILE)
  await store.add(REX)
  fs.appendFileSync(`${path}.journal`, 'theirs')
  await failDisk(t, ['sync']) // the file cannot be replaced
  assert.equal((await store.add(REX)).ok, false)
  const { size } = fs.statSync(`${path}.journal`)
  assert.equal(await store.isWritable(), false)
  assert.equal(fs.statSync(`${path}.journal`).size, size)
})

test('a lock that was removed is taken again when the file is next written', async (t) => {
  const { path, store } = await openFiled(t, FILE)
  removeLock(path)
  await store.add(REX)
  while (fs.readFileSync(path, 'utf8') === FILE) await new Promise(setImmediate)
  await assert.rejects(open(t, path), /in use by process/)
  removeLock(path)
  await store.close()
  assert.doesNotMatch(`${fs.readdirSync(dirname(path))}`, /pets\.json\.lock/)
  assert.deepEqual(all(await open(t, path)), all(store))
})

test('after its lock is removed, a store leaves all to the server that has it', async (t) => {
  const { path, store } = await openFiled(t, FILE)
  await store.add(REX)
  removeLock(path)
  const second = await open(t, path)
  assert.ok(await second.reset([{ name: 'Tom', categoryId: 1 }])) // folded at once
  const kept = all(second)
  fs.writeFileSync(`${path}.petstore-new`, 'half') // as while the second one writes it
  for (let times = 0; times < 2; times++) {
    assertFailed(await store.add(REX))
    assert.equal(await store.isWritable(), false)
    await assert.rejects(async () => store.reset([]), /is in use by process/)
  }
  assert.match(`${reports.get(store)}`, /error: .* cannot be repaired yet: .* is in use by process/)
  assert.equal(fs.readFileSync(`${path}.petstore-new`, 'utf8'), 'half')
  assert.deepEqual(all(await open(t, copyOf(path))), kept)
  await second.close()
  let added = await store.add(REX)
  while (!added.ok) added = await store.add(REX)
  const keptAs = fs.readdirSync(dirname(path)).find((name) => /^pets\.json\.\d+$/.test(name))
  assert.deepEqual(all(await open(t, `${dirname(path)}/${keptAs}`)), kept)
  await store.close()
  assert.deepEqual(all(await open(t, path)), all(store))
})

test('a store whose lock is removed while it writes the file does not place it', async (t) => {
  const { path, store } = await openFiled(t, FILE)
  const startSecond = async () => {
    removeLock(path)
    await open(t, path)
    fs.writeFileSync(`${path}.petstore-new`, 'half')
  }
  t.mock.method(await prototypeOfFiles(), 'sync', startSecond, { times: 1 })
  await assert.rejects(async () => store.reset([]), /is in use by process/)
  assert.equal(fs.readFileSync(path, 'utf8'), FILE)
})

test('a new file that somebody cuts before it is in place is not put there', async (t) => {
  const { path, store } = await openFiled(t, FILE)
  const files = await prototypeOfFiles()
  const { sync } = files
  async function syncAndCut(this: typeof files) {
    await sync.call(this)
    fs.truncateSync(`${path}.petstore-new`, 9)
  }
  t.mock.method(files, 'sync', syncAndCut, { times: 1 })
  await assert.rejects(async () => store.reset([]), /somebody changed .*petstore-new$/)
  assert.equal(fs.readFileSync(path, 'utf8'), FILE)
})

type StatsOf = typeof fs.promises.lstat
/** Changes the stats of all files. */
function mockStats(t: TestContext, change: (stats: fs.Stats) => Partial<fs.Stats>) {
  for (const name of ['stat', 'lstat'] as const) {
    const statsOf: StatsOf = fs.promises[name]
    const changed = async (path: string) => {
      const stats = await statsOf(path)
      return Object.assign(stats, change(stats))
    }
    const { mock } = t.mock.method(fs.promises, name, changed)
    t.after(() => {
      mock.restore()
      syncBuiltinESMExports()
    })
  }
  syncBuiltinESMExports()
}

test('works where a file has another inode each time, as on some FUSE disks', async (t) => {
  let ino = 0
  mockStats(t, () => ({ ino: ino++, dev: ino++ }))
  const { path, store } = await openFiled(t, FILE)
  assert.equal((await store.add(REX)).ok, true)
  await store.close()
  assert.equal((await open(t, path)).size, 4)
  assert.doesNotMatch(`${fs.readdirSync(dirname(path))}`, /json\.\d/) // kept as a foreign one
})

test('refuses a file that has another time each time', async (t) => {
  let mtimeMs = 0
  mockStats(t, () => ({ mtimeMs: mtimeMs++ }))
  const sentence = /json must be on a file system whose sizes and times are stable$/
  await assert.rejects(open(t, filed(FILE)), sentence)
})

test('a reset replaces the file whole, and leaves no replaced one open', async (t) => {
  const { path, store } = await openFiled(t, FILE)
  let left = 20
  const resets = Array.from({ length: left }, async (_, at) => {
    await store.reset(at % 2 === 0 ? Array(200).fill(REX) : PETS)
    left--
  })
  while (left > 0) {
    assert.ok([3, 200].includes(JSON.parse(fs.readFileSync(path, 'utf8')).length))
    await new Promise(setImmediate)
  }
  await Promise.all(resets)
  const files = sh('/', `ls -l /proc/${process.pid}/fd || :`)
  assert.ok(!files.includes(`${path}.journal (deleted)`), files)
})

for (const mode of [0o660, 0o600]) {
  test(`keeps file mode ${mode.toString(8)}, and lets nobody else read the journal`, async (t) => {
    process.umask(0o022)
    const path = filed(FILE)
    fs.chmodSync(path, mode)
    const store = await open(t, path)
    await store.reset(PETS)
    assert.equal(fs.statSync(path).mode & 0o777, mode)
    assert.equal(fs.statSync(`${path}.journal`).mode & 0o777 & ~mode, 0)
    fs.unlinkSync(path)
    await store.close()
    assert.equal(fs.statSync(path).mode & 0o777, mode)
  })
}

test('a close waits for additions; if it fails, it says so and keeps the journal', async (t) => {
  const { path, store } = await openFiled(t)
  const { mock: written } = t.mock.method(await prototypeOfFiles(), 'write')
  const adding = store.add(REX)
  const end = await failDisk(t, ['sync'])
  await assert.rejects(async () => store.close(), /not be completed; keep .*\.journal with it: EIO/)
  end()
  const journal = written.calls[0]?.this
  assert.ok(hasMembers(journal))
  assert.equal(journal['fd'], -1) // it is closed
  assert.equal((await adding).ok, true)
  assertFailed(await store.add(REX))
  await assert.rejects(async () => store.reset([]), /the store is closed$/)
  assert.ok(fs.existsSync(`${path}.journal`))
  assert.deepEqual(all(await open(t, path)), LINES.slice(0, 1))
})

test('a live copy of the journal, then of the file, holds all acknowledged pets', async (t) => {
  const { path, store } = await openFiled(t)
  let isAdding = true
  const adding = Array.from({ length: 8 }, async () => {
    while (isAdding) await store.add({ name: 'x'.repeat(500), categoryId: 7 })
  })
  for (let count = 0; count < 20; count++) {
    const { size } = store
    if (fs.existsSync(`${path}.journal`)) fs.copyFileSync(`${path}.journal`, `${path}.2.journal`)
    fs.copyFileSync(path, `${path}.2`)
    const copy = await open(t, `${path}.2`)
    assert.ok(copy.size >= size, `${copy.size} of ${size}`)
    assert.equal(copy.get(size), store.get(size))
    await copy.close()
  }
  isAdding = false
  await Promise.all(adding)
})

const NOBODY = 65_534
const rootOnly = { skip: process.getuid?.() !== 0 && 'only root may take another user' }
const mountOnly = { skip: !mayMount() && 'nothing may be mounted here' }

/** A file in a folder that everybody may write to. */
function shared(): string {
  const path = filed(FILE)
  fs.chmodSync(dirname(path), 0o777)
  return path
}

/** Runs a task as a user that may do nothing in particular. */
async function asNobody(path: string, task: () => Promise<void>): Promise<void> {
  fs.chmodSync(dirname(dirname(path)), 0o755)
  process.seteuid?.(NOBODY)
  try {
    await task()
  } finally {
    process.seteuid?.(0)
  }
}

async function assertRefused(t: TestContext, path: string, reason: RegExp): Promise<void> {
  const folder = fs.readdirSync(dirname(path))
  await assert.rejects(open(t, path), reason)
  assert.deepEqual(fs.readdirSync(dirname(path)), folder)
}

for (const kind of ['mkfifo', 'mkdir']) {
  test(`refuses a file or a journal made by ${kind}`, async (t) => {
    const path = shared()
    execFileSync(kind, [`${path}.journal`])
    await assertRefused(t, path, /pets\.json\.journal: must be a regular file$/)
    fs.unlinkSync(path)
    execFileSync(kind, [path])
    await assertRefused(t, path, /pets\.json: must be a regular file$/)
  })
}

test('refuses to begin on a full disk', async (t) => {
  await failDisk(t, ['appendFile'], 'ENOSPC')
  await assertRefused(t, filed(), /pets\.json cannot be replaced: ENOSPC/)
})

test('refuses a journal whose snapshot is missing', async (t) => {
  for (const journal of ['', LINE]) {
    const path = filed(undefined, journal)
    await assertRefused(t, path, /journal: .*pets\.json, which it adds to, is missing: restore it$/)
  }
})

test('keeps a read-only file, and writes a journal next to it', rootOnly, async (t) => {
  const path = shared()
  fs.chmodSync(path, 0o444)
  fs.chownSync(path, NOBODY, NOBODY)
  await asNobody(path, async () => {
    const store = await open(t, path)
    await store.add(REX)
    await store.reset([REX, REX]) // opens the journal again
    assert.equal((await store.add(REX)).ok, true)
    assert.equal(fs.statSync(path).mode & 0o777, 0o444)
    await store.close()
  })
})

for (const how of ['stopped', 'killed']) {
  test(`a user's file is still theirs after root used it and was ${how}`, rootOnly, async (t) => {
    const path = shared()
    fs.chmodSync(path, 0o600)
    fs.chownSync(path, NOBODY, NOBODY)
    const store = await open(t, path)
    await store.reset(PETS)
    await store.add(REX)
    if (how === 'stopped') await store.close()
    const pets = all(store)
    const left = how === 'stopped' ? path : copyOf(path)
    fs.chmodSync(dirname(left), 0o777)
    await asNobody(left, async () => {
      const theirs = await open(t, left)
      assert.deepEqual(all(theirs), pets)
      assert.equal((await theirs.add(REX)).ok, true)
      await theirs.close()
    })
  })
}

test("starts next to another user's dead lock, which it may not remove", rootOnly, async (t) => {
  const path = shared()
  fs.chownSync(path, NOBODY, NOBODY)
  fs.chmodSync(dirname(path), 0o1777)
  const server = createServer().listen(`${path}.x`)
  await once(server, 'listening')
  fs.chmodSync(`${path}.x`, 0o666)
  for (const name of ['lock.0', 'lock-0']) fs.linkSync(`${path}.x`, `${path}.${name}`)
  server.close()
  await asNobody(path, async () => (await open(t, path)).close())
  await (await open(t, path)).close()
  assert.deepEqual(fs.readdirSync(dirname(path)), ['pets.json'])
})

for (const mode of [0o644, 0o666]) {
  const what = `another user's file of mode ${mode.toString(8)} in a sticky folder`
  test(`refuses ${what}`, rootOnly, async (t) => {
    const path = shared()
    fs.chmodSync(path, mode)
    fs.chmodSync(dirname(path), 0o1777)
    await asNobody(path, () => assertRefused(t, path, /pets\.json cannot be replaced: EPERM/))
  })
}

test("keeps another user's file, of which there may be no link", rootOnly, async (t) => {
  const path = shared()
  await asNobody(path, async () => {
    const store = await open(t, path)
    process.seteuid?.(0)
    fs.unlinkSync(path)
    fs.writeFileSync(path, 'theirs', { mode: 0o600 })
    process.seteuid?.(NOBODY)
    await store.add(REX) // fails, and mends the file
    assert.equal((await store.add(REX)).ok, true)
    await store.close()
  })
  assert.equal(JSON.parse(fs.readFileSync(path, 'utf8')).length, 4)
  const [, keptAs = ''] = fs.readdirSync(dirname(path)).sort()
  assert.equal(fs.readFileSync(`${dirname(path)}/${keptAs}`, 'utf8'), 'theirs')
})

test('a close that fails says so, even if the lock cannot be removed', rootOnly, async (t) => {
  const path = shared()
  await asNobody(path, async () => {
    const store = await open(t, path)
    await store.add(REX)
    process.seteuid?.(0)
    fs.chmodSync(dirname(path), 0o555)
    process.seteuid?.(NOBODY)
    await assert.rejects(async () => store.close(), /keep .*\.journal with it: EACCES/)
  })
  assert.equal((await open(t, path)).size, 4)
})

test('refuses a file that is mounted by itself', mountOnly, async (t) => {
  const path = shared()
  execFileSync('mount', ['--bind', shared(), path])
  t.after(() => execFileSync('umount', [path]))
  await assertRefused(t, path, /pets\.json cannot be replaced: EBUSY/)
})
