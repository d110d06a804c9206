import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import fs from 'node:fs'
import { open as openFile } from 'node:fs/promises'
import { test, type TestContext } from 'node:test'
import { crc32 } from 'node:zlib'
import type { NewPet } from '../../src/pets/pet.ts'
import { openSnapshotStore } from '../../src/pets/snapshot.ts'
import type { MemoryStore } from '../../src/pets/store.ts'
import { folderOf, Random } from '../support.ts'

const SEED = Number(process.env['SEED'] ?? randomInt(2 ** 31))
const REX: NewPet = { name: 'Rex', categoryId: 7, status: 'available' }
const PETS: NewPet[] = [REX, { name: 'Zoë "the cat" 🐈', categoryId: 2n ** 63n - 1n }, { name: '', categoryId: -1 }]
const LINES = [
  '{"id":1,"name":"Rex","categoryId":7,"status":"available"}',
  '{"id":2,"name":"Zoë \\"the cat\\" 🐈","categoryId":9223372036854775807}',
  '{"id":3,"name":"","categoryId":-1}',
]
const FILE = `[\n${LINES.join(',\n')}\n]\n`
const FAILED = { ok: false, reason: 'storage_failed' }

const reports = new WeakMap<MemoryStore, string[]>()

async function open(t: TestContext, path: string): Promise<MemoryStore> {
  const lines: string[] = []
  const report = (level: string, message: string) => lines.push(`${level}: ${message}`)
  const store = await openSnapshotStore(path, 1e9, report)
  reports.set(store, lines)
  t.after(() => store.close().catch(() => {}))
  return store
}

function filed(t: TestContext, file?: string | Buffer, journal?: string | Buffer): string {
  const path = `${folderOf(t)}/pets.json`
  if (file !== undefined) fs.writeFileSync(path, file)
  if (journal !== undefined) fs.writeFileSync(`${path}.journal`, journal)
  return path
}

function all(store: MemoryStore): string[] {
  return [...store.values()]
}

function journalLine(...pets: string[]): string {
  const checked = pets.map((pet) => `,${pet}`).join('')
  return `["${crc32(checked).toString(16).padStart(8, '0')}"${checked}]\n`
}

function linesIn(path: string): string[] {
  return fs.readFileSync(path, 'utf8').split('\n').slice(0, -1)
}

/** Copies what a start would find if the server were killed now. */
function copyOf(path: string): string {
  fs.copyFileSync(`${path}.journal`, `${path}.2.journal`)
  fs.copyFileSync(path, `${path}.2`)
  return `${path}.2`
}

/** Asks until pets can be added; the failures before are those of a store that had to notice first. */
async function recover(store: MemoryStore): Promise<void> {
  while (!(await store.add(REX)).ok);
}

test('what is added is in the journal, a line a write with its CRC-32, and in the file after the end', async (t) => {
  const path = filed(t)
  const store = await open(t, path)
  assert.equal(fs.readFileSync(path, 'utf8'), '[\n]\n')
  const added = [await store.add(PETS[0] ?? REX), ...(await Promise.all(PETS.slice(1).map((pet) => store.add(pet))))]
  for (const [at, json] of LINES.entries()) assert.deepEqual(added[at], { ok: true, id: at + 1, json })
  const [first = '', ...rest] = LINES
  assert.equal(fs.readFileSync(`${path}.journal`, 'utf8'), journalLine(first) + journalLine(...rest))
  await store.close()
  assert.equal(fs.readFileSync(path, 'utf8'), FILE)
  assert.deepEqual(fs.readdirSync(path.replace('/pets.json', '')), ['pets.json'])
  const again = await open(t, path)
  assert.deepEqual(all(again), LINES)
  assert.deepEqual(await again.add(REX), { ok: true, id: 4, json: LINES[0]?.replace('1', '4') })
})

test('a large file is written anew once the journal has grown as much; what is added meanwhile is kept', async (t) => {
  const path = filed(t)
  const store = await open(t, path)
  const big = { name: 'x'.repeat(2 ** 16), categoryId: 1 }
  while (fs.statSync(path).size < 2 ** 22) await store.add(big)
  assert.ok(store.size < 2 * 64 + 64, 'it is written early enough')
  assert.deepEqual(all(await open(t, copyOf(path))), all(store))
  await store.close()
  assert.deepEqual(all(await open(t, path)), all(store))
})

const FIVE = '{"id":5,"name":"Rex","categoryId":7}'
const SIX = FIVE.replace('5', '6')
const FORMS: [form: string, text: string, pets: string[]][] = [
  ['none', '[]', []],
  ['none, spaced', ' \r\n\t[\n\n ]\n\n', []],
  ['the one that is written', FILE, LINES],
  ['one line', `[${LINES.join(',')}]`, LINES],
  ['as jq prints it', JSON.stringify(JSON.parse(`[${FIVE}]`), null, 2), [FIVE]],
  ['lines with escapes', `[\n${FIVE.replace('Rex', '\\u0041')},\n${SIX}\n]`, [FIVE.replace('Rex', 'A'), SIX]],
  [
    'odd, with gaps in the ids',
    '[ {"x":{"y":["]",1]},"name":"\\u0041},]","id":2,\n"categoryId":7.0}\r\n,\r\n{"id":9,"categoryId":9007199254740993,"name":""} ]',
    ['{"id":2,"name":"A},]","categoryId":7}', '{"id":9,"name":"","categoryId":9007199254740993}'],
  ],
]
for (const [form, text, pets] of FORMS) {
  test(`a file may be any array of pets with ascending ids: ${form}`, async (t) => {
    const store = await open(t, filed(t, text))
    assert.deepEqual(all(store), pets)
    const added = await store.add(REX)
    const [last] = pets.slice(-1).map((json) => JSON.parse(json).id)
    assert.equal(added.ok && added.id, (last ?? 0) + 1)
  })
}

test('a file of many pieces is read whole, long lines among the short', async (t) => {
  const path = filed(t)
  const names = Array.from({ length: 300 }, (_, at) => (at === 150 ? 'long '.repeat(600_000) : `${at}é`.repeat(2_000)))
  const json = names.map((name, at) => JSON.stringify({ id: at + 1, name, categoryId: at }))
  for (const separator of [',\n', ',']) {
    fs.writeFileSync(path, `[\n${json.join(separator)}\n]`)
    const store = await open(t, path)
    assert.deepEqual(all(store), json)
    await store.close()
  }
})

const NO_PET = '[\n{\n"id":1,"name":7,"categoryId":1}\n]'
const NOT_UTF8 = Buffer.from('[{"id":1,"name":"\xff","categoryId":1}]', 'latin1')
const NOT_UTF8_LINES = Buffer.from(FILE.replace('Rex', '\xff'), 'latin1')
const ID_RULE = /json: line 1: id must be an integer from 1 to 999999999999999$/
const OTHER = journalLine(LINES[0]?.replace('Rex', 'Max') ?? '')
const GAP = `x\n${journalLine(FIVE)}`
const REFUSED: [why: string, file: string | Buffer, reason: RegExp, journal?: string][] = [
  ['empty', '', /json: line 1: must begin an array of pets$/],
  ['no array', '\n{}', /json: line 2: must begin an array of pets$/],
  ['of the older form', '{"petstore":1,"pets":[\n]}\n', /json: line 1: .*: jq \.pets FILE > NEW_FILE$/],
  ['cut', FILE.slice(0, -3), /json: line 4: the array does not end$/],
  ['more than an array', `${FILE}]`, /json: line \d: must hold nothing behind the array$/],
  ['no comma', FILE.replace(',\n', '\n'), /json: line 2: Unexpected non-whitespace|json: line 2: Expected/],
  ['a comma too many', '[\n1,\n]', /json: line 2: a pet must be an object$/],
  ['an empty item', `[\n${LINES[0]},\n]`, /json: line 3: Unexpected end of JSON input$/],
  ['no id', '[{"name":"","categoryId":1}]', ID_RULE],
  ['an id too great', '[{"id":1000000000000000,"name":"","categoryId":1}]', ID_RULE],
  ['an id twice', `[\n${LINES[0]},\n${LINES[0]}\n]`, /json: line 3: the id 1 must be above 1, the one before$/],
  ['no pet', NO_PET, /json: line 2: name must be a string$/],
  ['not UTF-8', NOT_UTF8, /line 1: .*UTF-8$/],
  ['not UTF-8, in a line as it is written', NOT_UTF8_LINES, /line 2: .*UTF-8$/],
  ['a journal with a gap', FILE, /journal: line 2: pet 4 must come before pet 5/, GAP],
  ['another pet in the journal', FILE, /journal: line 1: pet 1 is another one/, OTHER],
  ['no pet in the journal', FILE, /journal: line 1: name is required/, journalLine('{"id":4}')],
  ['no JSON in the journal', FILE, /journal: line 1: a pet must be an object/, journalLine('{"id":4')],
]
for (const [why, file, reason, journal] of REFUSED) {
  test(`a file is refused with line and reason, and left as it is: ${why}`, async (t) => {
    const path = filed(t, file, journal)
    await assert.rejects(open(t, path), reason)
    const names = journal === undefined ? ['pets.json'] : ['pets.json', 'pets.json.journal']
    assert.deepEqual(fs.readdirSync(path.replace('/pets.json', '')), names)
    assert.deepEqual(fs.readFileSync(path), Buffer.from(file))
    if (journal !== undefined) assert.equal(fs.readFileSync(`${path}.journal`, 'utf8'), journal)
  })
}

const FOUR = '{"id":4,"name":"Tom","categoryId":1}'
const JOURNALS: [what: string, journal: string, pets: string[], torn: number][] = [
  ['whole', journalLine(FOUR), [...LINES, FOUR], 0],
  ['older than the file', journalLine(...LINES), LINES, 0],
  ['older in part', journalLine(LINES[2] ?? '', FOUR), [...LINES, FOUR], 0],
  ['of zeros before old lines', `${'\0'.repeat(99)}\n${journalLine(...LINES)}`, LINES, 0],
  ['of torn lines before whole ones', `["00000000",${FOUR}]\n["\n${journalLine(FOUR)}`, [...LINES, FOUR], 0],
  ['torn, but for its newline', `${journalLine(FOUR)}["00000000",{}]\n`, [...LINES, FOUR], 16],
  ['torn at its end', `${journalLine(FOUR)}["00`, [...LINES, FOUR], 4],
  ['torn before its newline', journalLine(FOUR).trimEnd(), LINES, journalLine(FOUR).length - 1],
  ['of zeros', '\0'.repeat(5_000), LINES, 5_000],
]
for (const [what, journal, pets, torn] of JOURNALS) {
  test(`whole lines of a journal are read, and what follows the last is cut off: ${what}`, async (t) => {
    const path = filed(t, FILE, journal)
    const store = await open(t, path)
    assert.deepEqual(all(store), pets)
    const cut = `warn: ${path}.journal: cut off ${torn} bytes of a write that was never acknowledged`
    assert.deepEqual(reports.get(store), torn > 0 ? [cut] : [])
    await store.add(REX)
    await store.close()
    assert.deepEqual(all(await open(t, path)).slice(0, -1), pets)
  })
}

test(`a journal cut anywhere keeps the lines before; one with a byte changed too, or it is refused (SEED=${SEED})`, async (t) => {
  const random = new Random(SEED)
  const json = (id: number) => JSON.stringify({ id, name: random.string(), categoryId: id })
  const pets = Array.from({ length: 9 }, (_, at) => json(at + 1))
  const whole = Buffer.from(pets.map((pet) => journalLine(pet)).join(''))
  const path = filed(t)
  for (let count = 0; count < 200; count++) {
    const at = random.integer(0, whole.length - 1)
    const changed = random.chance(0.5) ? whole.subarray(0, at) : Buffer.from(whole)
    if (changed.length === whole.length) changed[at] = (changed[at] ?? 0) ^ random.integer(1, 255)
    fs.writeFileSync(path, '[]')
    fs.writeFileSync(`${path}.journal`, changed)
    const isIn = whole.subarray(0, at).toString('latin1').split('\n').length - 1
    const store = await open(t, path).catch((error: Error) => error.message)
    if (typeof store === 'string') assert.match(store, /json\.journal: line \d+: pet \d must come before pet \d/)
    else assert.deepEqual(all(store), pets.slice(0, isIn))
    if (typeof store !== 'string') await store.close()
  }
})

test('what is no regular file, or in no folder, is refused; a link leads to the file and to its lock', async (t) => {
  const path = filed(t, FILE)
  const folder = path.replace('/pets.json', '')
  fs.mkdirSync(`${folder}/folder`)
  await assert.rejects(open(t, `${folder}/folder`), /folder: must be a regular file$/)
  await assert.rejects(open(t, `${folder}/none/pets.json`), /none\/pets\.json must be in a folder that exists/)
  fs.symlinkSync('later.json', `${folder}/link.json`)
  await (await open(t, `${folder}/link.json`)).add(REX)
  await assert.rejects(open(t, `${folder}/later.json`), /is in use by process \d+ on .+ since \d{4}-/)
})

/** Lets a method of all open files fail, from a call on, until it is restored; writing to a snapshot too where it is `write`. */
async function failing(t: TestContext, method: string, code = 'EIO', from = 0): Promise<() => void> {
  const probe = await openFile(filed(t, ''), 'r')
  const prototype = Object.getPrototypeOf(probe)
  await probe.close()
  const restoreAppend = method === 'write' ? await failing(t, 'appendFile', code) : () => {}
  const works: (...args: unknown[]) => Promise<unknown> = prototype[method]
  const { mock } = t.mock.method(prototype, method, function (this: unknown, ...args: unknown[]) {
    if (mock.callCount() < from) return works.apply(this, args)
    return Promise.reject(Object.assign(new Error(`${code}: it fails`), { code }))
  })
  return () => {
    mock.restore()
    restoreAppend()
  }
}

for (const failure of ['write ENOSPC', 'write EIO', 'datasync EIO']) {
  const [method = '', code = ''] = failure.split(' ')
  test(`while ${method} fails with ${code}, additions do too and reads go on; afterwards all goes on`, async (t) => {
    const path = filed(t, FILE)
    const store = await open(t, path)
    const restore = await failing(t, method, code)
    assert.deepEqual(await store.add(REX), FAILED)
    const copy = copyOf(path)
    for (let times = 0; times < 2; times++) {
      assert.deepEqual(await Promise.all([store.add(REX), store.add(REX)]), [FAILED, FAILED])
      assert.deepEqual(await Promise.all([store.isWritable(), store.isWritable()]), [false, false])
      await assert.rejects(async () => store.reset([]), /it fails/)
    }
    assert.deepEqual(all(store), LINES)
    restore()
    assert.deepEqual(all(await open(t, copy)), LINES)
    assert.equal(await store.isWritable(), true)
    assert.equal((await store.add(REX)).ok, true)
    const said = [`error: ${path} cannot be written: ${code}: it fails`, `info: ${path} can be written again`]
    assert.deepEqual(reports.get(store), said)
    await store.close()
    assert.deepEqual(linesIn(path).length, 6)
  })
}

function replace(path: string): void {
  fs.writeFileSync(`${path}.x`, 'theirs')
  fs.renameSync(`${path}.x`, path)
}

const STRANGERS: [deed: string, act: (path: string) => void, isKept: boolean][] = [
  ['removes the file', (path) => fs.unlinkSync(path), false],
  ['replaces the file', (path) => replace(path), true],
  ['writes over the file', (path) => fs.writeFileSync(path, 'theirs'), true],
  ['cuts the file', (path) => fs.truncateSync(path, 9), true],
  ['removes the journal', (path) => fs.unlinkSync(`${path}.journal`), false],
  ['cuts the journal', (path) => fs.truncateSync(`${path}.journal`, 1), false],
  ['adds to the journal', (path) => fs.appendFileSync(`${path}.journal`, 'theirs'), false],
  ['replaces the journal', (path) => replace(`${path}.journal`), false],
  ['removes all', (path) => [path, `${path}.journal`].forEach((name) => fs.unlinkSync(name)), false],
]
for (const [deed, act, isKept] of STRANGERS) {
  for (const then of ['at the next addition', 'at the end', 'at the end, if none was added'] as const) {
    test(`nothing is lost to somebody who ${deed}: it is written anew ${then}`, async (t) => {
      const path = filed(t, FILE)
      const store = await open(t, path)
      if (then !== 'at the end, if none was added') await store.add(REX)
      act(path)
      if (then === 'at the next addition') {
        await recover(store)
        assert.deepEqual(all(await open(t, copyOf(path))), all(store))
      }
      await store.close()
      assert.deepEqual(all(await open(t, path)), all(store))
      const kept = fs.readdirSync(path.replace('/pets.json', '')).filter((name) => /^pets\.json\.\d{4}-/.test(name))
      const warning = `warn: ${path} was somebody else's file, which is ${path.replace('pets.json', kept[0] ?? '')} now`
      const warnings = reports.get(store)?.filter((line) => line.startsWith('warn: '))
      assert.deepEqual([kept.length, warnings], isKept ? [1, [warning]] : [0, []])
    })
  }
}

test('reset() replaces the file whole, with its mode; a reader sees it before or after', async (t) => {
  const path = filed(t, FILE)
  fs.chmodSync(path, 0o640)
  const store = await open(t, path)
  let left = 20
  const resets = Array.from({ length: left }, async (_, at) => {
    await store.reset(at % 2 === 0 ? Array(200).fill(REX) : PETS)
    left--
  })
  for (; left > 0; await new Promise(setImmediate))
    assert.ok([3, 200].includes(JSON.parse(fs.readFileSync(path, 'utf8')).length))
  await Promise.all(resets)
  assert.equal(fs.statSync(path).mode & 0o777, 0o640)
  assert.equal(fs.statSync(`${path}.journal`).mode & 0o777, 0o640)
})

for (const from of [0, 1, 2, 3, 4, 5, 6]) {
  test(`a reset that fails at sync ${from + 1} or later leaves the old pets, in memory and after the next start`, async (t) => {
    const path = filed(t, FILE)
    const store = await open(t, path)
    await store.add(REX)
    const restore = await failing(t, 'sync', 'EIO', from)
    const isReset = await Promise.resolve(store.reset([])).catch(() => false)
    restore()
    assert.equal((await store.add(REX)).ok, true)
    assert.deepEqual(all(await open(t, copyOf(path))), all(store))
    assert.equal(store.size, isReset ? 1 : 5)
    await store.close()
    assert.deepEqual(all(await open(t, path)), all(store))
  })
}

test('the end waits for additions; a snapshot that cannot be completed is said, and the journal stays', async (t) => {
  const path = filed(t)
  const store = await open(t, path)
  const adding = store.add(REX)
  const restore = await failing(t, 'sync')
  await assert.rejects(store.close(), /pets\.json could not be completed; keep .*pets\.json\.journal with it: EIO/)
  restore()
  assert.equal((await adding).ok, true)
  assert.deepEqual(await store.add(REX), FAILED)
  await assert.rejects(async () => store.reset([]), /the store is closed$/)
  assert.ok(fs.existsSync(`${path}.journal`))
  assert.deepEqual(all(await open(t, path)), LINES.slice(0, 1))
})

test('copies of the journal and then of the file, made while pets are added, hold all that were acknowledged', async (t) => {
  const path = filed(t)
  const store = await open(t, path)
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
