import assert from 'node:assert/strict'
import { once } from 'node:events'
import { chmodSync, lstatSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs'
import { rmSync, statSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import files from 'node:fs/promises'
import { dirname } from 'node:path'
import { test, type TestContext } from 'node:test'
import { startPetstore } from '../../src/index.ts'
import type { Pet, Petstore } from '../../src/types.ts'
import { logOf, send, start, temporaryFolder } from '../support.ts'

const REX = '{"id":1,"name":"Rex","categoryId":1}'
const TOM = '{"id":7,"name":"Tom","categoryId":2,"status":"sold"}'
const MAX = '{"id":9223372036854775807,"name":"Max","categoryId":-9223372036854775808}'
const NEW = { name: 'new', categoryId: 1 }
const UUID = '123e4567-e89b-42d3-a456-426614174000'

/** FILE as a server writes it. */
function lines(...pets: string[]): string {
  return `[${pets.map((pet) => `\n${pet}`).join(',')}\n]\n`
}

/** A path for FILE, in a folder of its own; FILE has a text if one is given. */
function fileOf(t: TestContext, text?: string | Buffer): string {
  const path = `${temporaryFolder(t)}/pets.json`
  if (text !== undefined) writeFileSync(path, text)
  return path
}

async function list(petstore: Petstore): Promise<string> {
  return (await send(petstore, 'GET', '/v1/pets?limit=100')).body
}

/** The new pet, or the status and the code of the error. */
async function create(petstore: Petstore, name = 'new'): Promise<string> {
  const body = JSON.stringify({ name, categoryId: 1 })
  const answer = await send(petstore, 'POST', '/v1/pets', { body })
  return answer.status === 201 ? answer.body : `${answer.status} ${JSON.parse(answer.body).code}`
}

/** Calls a function when a write has begun and before FILE is replaced, each time. */
function duringWrites(t: TestContext, act: () => unknown): void {
  const { open } = files
  t.mock.method(files, 'open', async (...args: Parameters<typeof open>) => {
    const handle = await open(...args)
    if (String(args[0]).endsWith('.new')) await act()
    return handle
  })
}

/** Calls a function in place of each sync of the folder of FILE. */
function onFolderSync(t: TestContext, path: string, act: () => Promise<void>): void {
  const { open } = files
  t.mock.method(files, 'open', async (...args: Parameters<typeof open>) => {
    const handle = await open(...args)
    if (args[0] === dirname(path)) t.mock.method(handle, 'sync', act)
    return handle
  })
}

test('FILE may have any layout, and is written with a pet on each line', async (t) => {
  const odd = '{"id":3,"name":"\\ud800 3.5","categoryId":9007199254740993}'
  const layouts: [text: string, ...pets: string[]][] = [
    ['[]'],
    [' [\r\n]\r\n'],
    [`[${REX},${TOM}]`, REX, TOM],
    [JSON.stringify([JSON.parse(REX), JSON.parse(TOM)], null, 4), REX, TOM],
    ['[{"status":"sold","categoryId":2.0,"name":"T","name":"T\\u006fm","id":7}]', TOM],
    [lines(REX, odd), REX, odd],
  ]
  for (const [text, ...pets] of layouts) {
    const snapshot = fileOf(t, text)
    const petstore = await start(t, { snapshot, pets: pets.length > 0 ? [NEW] : [] })
    assert.equal(await list(petstore), `[${pets.join(',')}]`)
    assert.equal(readFileSync(snapshot, 'utf8'), text)
    const added = await create(petstore)
    assert.equal(readFileSync(snapshot, 'utf8'), lines(...pets, added))
  }
})

test('a FILE that is no array of pets is refused with the item, and left as it is', async (t) => {
  const refused: [text: string | Buffer, reason: RegExp][] = [
    ['', /JSON/],
    [`[\n${REX},\n`, /JSON/],
    [`<<<<<<< ours\n${lines(REX)}`, /JSON/],
    [Buffer.from([0x5b, 0xff, 0x5d]), /UTF-8/],
    [REX, /array/],
    [lines(REX, 'null'), /\b2\b.*object/],
    [lines(REX, REX), /\b2\b.*id .*above 1/],
    [lines(TOM, REX), /\b2\b.*id .*above 7/],
    [lines(REX.replace('1', '0')), /\b1\b.*id /],
    [lines(REX.replace('1', '9223372036854775808')), /\b1\b.*id /],
    [lines(REX.replace('"id":1,', '')), /\b1\b.*id /],
    [lines(REX, TOM.replace('sold', 'gone')), /\b2\b.*status/],
    [lines(REX, TOM.replace('"Tom"', '5')), /\b2\b.*name/],
    [lines(REX.replace('}', ',"age":3}')), /\b1\b.*age/],
  ]
  for (const [text, reason] of refused) {
    const snapshot = fileOf(t, text)
    const { ino, mtimeMs } = statSync(snapshot)
    await assert.rejects(startPetstore({ snapshot, pets: [NEW] }), (error: Error) => {
      assert.match(error.message, reason)
      assert.ok(error.message.includes(snapshot))
      return 'code' in error && error.code === 'storage_failed'
    })
    const after = statSync(snapshot)
    assert.deepEqual([after.ino, after.mtimeMs], [ino, mtimeMs])
    assert.deepEqual(readdirSync(dirname(snapshot)), ['pets.json'])
  }
})

test('a start writes FILE only for pets to begin with, and where it has none', async (t) => {
  const { port } = new URL((await start(t)).url)
  const begun = '{"id":1,"name":"new","categoryId":1}'
  for (const [before, after] of [
    [undefined, lines(begun)],
    ['[ ]', lines(begun)],
    [`[${REX}]`, `[${REX}]`],
  ]) {
    const snapshot = fileOf(t, before)
    if (before !== undefined) utimesSync(snapshot, 1, 1)
    // Its port is taken.
    await assert.rejects(startPetstore({ snapshot, pets: [NEW], port: Number(port) }))
    assert.equal(readFileSync(snapshot, 'utf8'), after)
    assert.equal(statSync(snapshot).mtimeMs === 1_000, before === after)
    await assert.rejects(startPetstore({ snapshot, pets: [], port: Number(port) }))
    assert.equal(readFileSync(snapshot, 'utf8'), after)
  }
})

test('a start fails where FILE cannot be read or its folder not be written', async (t) => {
  const folder = temporaryFolder(t)
  mkdirSync(`${folder}/folder.json`)
  symlinkSync('loop.json', `${folder}/loop.json`)
  const inNoFolder = `${folder}/none/pets.json`
  const inProc = '/proc/pets.json' // not even root may write there
  for (const snapshot of [`${folder}/folder.json`, `${folder}/loop.json`, inNoFolder, inProc]) {
    await assert.rejects(startPetstore({ snapshot }), (error: Error) => {
      assert.ok(error.message.includes(snapshot), error.message)
      return 'code' in error && error.code === 'storage_failed'
    })
  }
  await assert.rejects(startPetstore({ snapshot: inNoFolder }), /folder .*writable/)
})

test('a start removes what a kill has left next to FILE, and nothing else', async (t) => {
  const snapshot = fileOf(t, lines(REX))
  const kept = [
    `x${UUID}.new`,
    `.${UUID}`,
    '.new',
    `.${UUID}.new.bak`,
    `.${UUID.slice(1)}.new`,
    `.${UUID}x.new`,
  ]
  const others = kept.map((end) => `pets.json${end}`).concat(`other.json.${UUID}.new`)
  for (const name of [...others, `pets.json.${UUID}.new`]) {
    writeFileSync(`${dirname(snapshot)}/${name}`, '[\n{"id":1,"na')
  }
  assert.equal(await list(await start(t, { snapshot })), `[${REX}]`)
  assert.deepEqual(new Set(readdirSync(dirname(snapshot))), new Set(['pets.json', ...others]))
})

test('ids go on after a restart and an edit, and begin again with a reset only', async (t) => {
  const snapshot = fileOf(t)
  const first = await start(t, { snapshot, pets: [{ id: 2 ** 53 - 1, ...NEW }] })
  assert.match(await create(first), /"id":9007199254740992,/)
  await first.close()
  const second = await start(t, { snapshot })
  assert.match(await create(second), /"id":9007199254740993,/)
  writeFileSync(snapshot, lines(REX))
  assert.match(await create(second), /"id":9007199254740994,/)
  await second.reset()
  assert.equal(readFileSync(snapshot, 'utf8'), lines())
  assert.equal(await create(second, 'Rex'), REX)
  await second.reset([{ id: 2n ** 63n - 1n, name: 'Max', categoryId: -(2n ** 63n) }])
  assert.equal(await create(second), '507 store_full')
  assert.equal(readFileSync(snapshot, 'utf8'), lines(MAX))
})

test('a 201 says that FILE has the pet', async (t) => {
  const snapshot = fileOf(t)
  const petstore = await start(t, { snapshot })
  const clients = Array.from({ length: 30 }, async (_, at) => {
    const added = await create(petstore, `${at}`)
    assert.ok(readFileSync(snapshot, 'utf8').includes(added))
    return JSON.parse(added).id
  })
  assert.equal(new Set(await Promise.all(clients)).size, 30)
})

test('what comes during a write goes into the next one; what does not fit is 507', async (t) => {
  const snapshot = fileOf(t)
  const petstore = await start(t, { snapshot, maxStore: 4 * (REX.length + 100) })
  const later: Promise<string>[] = []
  const later507: Promise<string>[] = []
  let writes = 0
  duringWrites(t, async () => {
    writes++
    if (writes > 1) return
    later.push(create(petstore, 'Rex'), create(petstore, 'Tom'))
    later507.push(create(petstore, 'x'.repeat(300)))
    assert.equal(await later507[0], '507 store_full') // while the others wait
  })
  const first = await create(petstore, 'Rex')
  const pets = [first, ...(await Promise.all(later))]
  assert.equal(readFileSync(snapshot, 'utf8'), lines(...pets))
  assert.equal(writes, 2)
  assert.equal((await create(petstore, 'Rex')).length, REX.length)
  assert.equal(await create(petstore, ''), '507 store_full')
})

test('what no longer fits, because FILE was changed, takes nothing with it', async (t) => {
  const snapshot = fileOf(t)
  const petstore = await start(t, { snapshot, maxStore: 4 * (REX.length + 100) })
  const later: Promise<Pet[]>[] = []
  let writes = 0
  duringWrites(t, () => {
    writes++
    if (writes === 1) later.push(petstore.add([NEW, NEW]), petstore.add([NEW]))
    if (writes === 2) writeFileSync(snapshot, lines(REX, TOM))
  })
  await create(petstore)
  const [two, one] = await Promise.allSettled(later)
  assert.equal(two?.status, 'rejected')
  assert.deepEqual(one?.status === 'fulfilled' && one.value, [{ id: 8, ...NEW }])
  assert.equal(readFileSync(snapshot, 'utf8'), lines(REX, TOM, JSON.stringify({ id: 8, ...NEW })))
})

test('FILE may have more than maxStore allows', async (t) => {
  const petstore = await start(t, { snapshot: fileOf(t, lines(REX, TOM)), maxStore: 200 })
  assert.equal(await list(petstore), `[${REX},${TOM}]`)
  assert.equal(await create(petstore), '507 store_full')
  await assert.rejects(petstore.reset([NEW, NEW]), { code: 'store_full' })
  assert.equal(await list(petstore), `[${REX},${TOM}]`)
})

test('while the disk hangs, creates wait, count toward maxStore, and reads go on', async (t) => {
  for (const hangAt of [duringWrites, onFolderSync]) {
    await t.test(hangAt.name, async (inner) => {
      const snapshot = fileOf(inner, lines(REX))
      const petstore = await start(inner, { snapshot, maxStore: 2 * (REX.length + 100) })
      const disk = new EventTarget()
      const hang = async (): Promise<void> => {
        disk.dispatchEvent(new Event('hangs'))
        await once(disk, 'well')
      }
      if (hangAt === onFolderSync) onFolderSync(inner, snapshot, hang)
      else duringWrites(inner, hang)
      const hangs = once(disk, 'hangs')
      let isAnswered = false
      const adding = create(petstore, 'Rex').finally(() => {
        isAnswered = true
      })
      await hangs
      assert.equal(await create(petstore, ''), '507 store_full')
      assert.equal(await list(petstore), `[${REX}]`)
      assert.equal(isAnswered, false)
      disk.dispatchEvent(new Event('well'))
      const added = await adding
      assert.equal(await list(petstore), `[${REX},${added}]`)
    })
  }
})

test('what a link leads to is replaced, also where nothing is there yet', async (t) => {
  const folder = temporaryFolder(t)
  mkdirSync(`${folder}/real/deep`, { recursive: true })
  symlinkSync('real/deep', `${folder}/linked`)
  symlinkSync('../there.json', `${folder}/real/deep/one.json`)
  symlinkSync('one.json', `${folder}/linked/two.json`)
  for (const count of [1, 2]) {
    const petstore = await start(t, { snapshot: `${folder}/linked/two.json` })
    await create(petstore)
    assert.equal(JSON.parse(readFileSync(`${folder}/real/there.json`, 'utf8')).length, count)
    assert.ok(lstatSync(`${folder}/linked/two.json`).isSymbolicLink())
    await petstore.close()
  }
})

test('the new FILE has the mode of the old one', async (t) => {
  const snapshot = fileOf(t, lines(REX))
  const petstore = await start(t, { snapshot })
  for (const mode of [0o600, 0o666, 0o640]) {
    chmodSync(snapshot, mode)
    const { ino } = statSync(snapshot)
    await create(petstore)
    assert.equal(statSync(snapshot).mode & 0o777, mode)
    assert.notEqual(statSync(snapshot).ino, ino)
  }
})

test('an edit of FILE is kept and shown from the next create on', async (t) => {
  const tim = '{"id":7,"name":"Tim","categoryId":2}' // as long as REX
  for (const [pet, time, isInPlace] of [
    [TOM, 1, true], // another size only
    [tim, 2, true], // another time only
    [tim, 1, false], // another inode only
  ] as const) {
    const snapshot = fileOf(t, lines(REX))
    utimesSync(snapshot, 1, 1)
    const petstore = await start(t, { snapshot, log: 'json' })
    const log = logOf(t)
    const edited = isInPlace ? snapshot : fileOf(t)
    writeFileSync(edited, lines(pet))
    utimesSync(edited, time, time)
    if (!isInPlace) renameSync(edited, snapshot)
    assert.equal(await list(petstore), `[${REX}]`)
    const added = await create(petstore)
    assert.equal(added, '{"id":8,"name":"new","categoryId":1}')
    assert.equal(readFileSync(snapshot, 'utf8'), lines(pet, added))
    assert.equal(await list(petstore), `[${pet},${added}]`)
    assert.match(log.text, /"level":"warn","message":"[^"]*pets\.json; pets before: 1, now: 1"/)
  }
})

test('a FILE that is missing is written again with the next create', async (t) => {
  const snapshot = fileOf(t, lines(REX))
  const petstore = await start(t, { snapshot })
  rmSync(snapshot)
  const added = await create(petstore)
  assert.equal(readFileSync(snapshot, 'utf8'), lines(REX, added))
})

test('an edit during a write is kept, and the write begins again', async (t) => {
  const snapshot = fileOf(t, lines(REX))
  const petstore = await start(t, { snapshot })
  const edits = [
    () => rmSync(snapshot),
    () => writeFileSync(snapshot, lines(TOM)),
    () => renameSync(fileOf(t, lines(REX, TOM)), snapshot),
  ]
  duringWrites(t, () => edits.shift()?.())
  const added = await create(petstore)
  assert.equal(added, '{"id":8,"name":"new","categoryId":1}')
  assert.equal(edits.length, 0)
  assert.equal(readFileSync(snapshot, 'utf8'), lines(REX, TOM, added))
  assert.deepEqual(readdirSync(dirname(snapshot)), ['pets.json'])
})

test('servers that add to one FILE in turn lose nothing', async (t) => {
  const snapshot = fileOf(t)
  const [one, other] = [await start(t, { snapshot }), await start(t, { snapshot })]
  const added: string[] = []
  for (let turn = 0; turn < 5; turn++) {
    for (const server of [one, other, one]) {
      added.push(await create(server))
      assert.equal(await list(server), `[${added.join(',')}]`)
    }
  }
})

test('a FILE that cannot be read makes creates 503 until it can; a reset replaces it', async (t) => {
  const snapshot = fileOf(t, lines(REX))
  const petstore = await start(t, { snapshot, log: 'json' })
  for (const broken of ['', `[${REX}`, '[{"id":1,"name":"Rex"}]']) {
    const log = logOf(t)
    writeFileSync(snapshot, broken)
    assert.equal(await create(petstore), '503 storage_failed')
    assert.equal(await create(petstore), '503 storage_failed')
    await assert.rejects(petstore.add([NEW]), { code: 'storage_failed', message: /pets\.json/ })
    assert.equal(readFileSync(snapshot, 'utf8'), broken)
    assert.match(log.text, /"level":"warn".*"status":503.*"cause":"[^"]*pets\.json/)
    assert.equal(await list(petstore), `[${REX}]`)
    assert.equal((await send(petstore, 'GET', '/readyz')).status, 200)
    writeFileSync(snapshot, lines(TOM))
    assert.match(await create(petstore), /"id":\d+,/)
    writeFileSync(snapshot, broken)
    await petstore.reset([{ id: 1, name: 'Rex', categoryId: 1 }])
    assert.equal(readFileSync(snapshot, 'utf8'), lines(REX))
  }
})

test('a disk that fails makes creates 503 and adds nothing, until it is well', async (t) => {
  const folder = `${temporaryFolder(t)}/data`
  mkdirSync(folder)
  const snapshot = `${folder}/pets.json`
  const petstore = await start(t, { snapshot })
  const kept = [await create(petstore)]
  renameSync(folder, `${folder}.gone`)
  const answers = await Promise.all(Array.from({ length: 9 }, () => create(petstore)))
  assert.deepEqual(new Set(answers), new Set(['503 storage_failed']))
  await assert.rejects(petstore.add([NEW]), { code: 'storage_failed' })
  await assert.rejects(petstore.reset([]), { code: 'storage_failed' })
  assert.equal(await list(petstore), `[${kept.join(',')}]`)
  renameSync(`${folder}.gone`, folder)
  kept.push(await create(petstore))
  assert.equal(readFileSync(snapshot, 'utf8'), lines(...kept))
  assert.equal(await list(petstore), `[${kept.join(',')}]`)
  assert.deepEqual(readdirSync(folder), ['pets.json'])
})

test('where only the sync of the folder failed, the pets are in FILE and are shown', async (t) => {
  const snapshot = fileOf(t)
  const petstore = await start(t, { snapshot })
  let isFailing = true
  onFolderSync(t, snapshot, async () => {
    if (isFailing) throw new Error('made to fail')
  })
  assert.equal(await create(petstore, 'Rex'), '503 storage_failed')
  assert.equal(readFileSync(snapshot, 'utf8'), lines(REX))
  assert.equal(await list(petstore), `[${REX}]`)
  isFailing = false
  const next = await create(petstore)
  assert.equal(next, '{"id":2,"name":"new","categoryId":1}')
  assert.equal(readFileSync(snapshot, 'utf8'), lines(REX, next))
  isFailing = true
  await assert.rejects(petstore.reset([]), { code: 'storage_failed' })
  assert.equal(await list(petstore), '[]')
})

test('a reset replaces what was added before it', async (t) => {
  const snapshot = fileOf(t)
  const petstore = await start(t, { snapshot })
  const adding = petstore.add([NEW, NEW])
  const reset = petstore.reset([{ id: 7, name: 'Tom', categoryId: 2, status: 'sold' }])
  await Promise.all([adding, reset])
  assert.equal(readFileSync(snapshot, 'utf8'), lines(TOM))
  assert.equal(await list(petstore), `[${TOM}]`)
})
