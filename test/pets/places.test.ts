// Places where a snapshot may be: some it must be kept in all the same, and some it must refuse.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import fs from 'node:fs'
import { dirname } from 'node:path'
import { test, type TestContext } from 'node:test'
import { openSnapshotStore } from '../../src/pets/snapshot-store.ts'
import { folderOf } from '../support.ts'

const REX = { name: 'Rex', categoryId: 7 }
const FILE = '[\n{"id":1,"name":"Rex","categoryId":7}\n]\n'
const NOBODY = 65_534

const isRoot = process.getuid?.() === 0
const mount = folderOf()
const mayMount = isRoot && spawnSync('mount', ['-t', 'tmpfs', 'tmpfs', mount]).status === 0
if (mayMount) execFileSync('umount', [mount])
const rootOnly = { skip: !isRoot && 'only root may take another user' }
const mountOnly = { skip: !mayMount && 'nothing may be mounted here' }

/** A file in a folder that everybody may write to. */
function fileIn(t: TestContext, mode = 0o644): string {
  const folder = folderOf(t)
  fs.chmodSync(folder, 0o777)
  fs.writeFileSync(`${folder}/pets.json`, FILE, { mode })
  return `${folder}/pets.json`
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

const open = (path: string) => openSnapshotStore(path, 1e9, () => {})

async function assertRefused(path: string, reason: RegExp): Promise<void> {
  const folder = fs.readdirSync(dirname(path))
  await assert.rejects(open(path), reason)
  assert.deepEqual(fs.readdirSync(dirname(path)), folder)
}

test('refuses a file or a journal that is not a regular file', async (t) => {
  for (const suffix of ['', '.journal']) {
    const fifo = fileIn(t)
    if (suffix === '') fs.unlinkSync(fifo)
    execFileSync('mkfifo', [fifo + suffix])
    await assertRefused(fifo, new RegExp(`pets\\.json${suffix}: must be a regular file$`))
    const folder = fileIn(t)
    if (suffix === '') fs.unlinkSync(folder)
    fs.mkdirSync(folder + suffix)
    await assertRefused(folder, new RegExp(`pets\\.json${suffix}: must be a regular file$`))
  }
})

test('keeps a read-only file, and writes a journal next to it', rootOnly, async (t) => {
  const path = fileIn(t)
  fs.chmodSync(path, 0o444)
  fs.chownSync(path, NOBODY, NOBODY)
  await asNobody(path, async () => {
    const store = await open(path)
    await store.add(REX)
    await store.reset([REX, REX]) // opens the journal again
    assert.equal((await store.add(REX)).ok, true)
    assert.equal(fs.statSync(path).mode & 0o777, 0o444)
    await store.close()
  })
})

test('refuses a file in a sticky folder that another user owns', rootOnly, async (t) => {
  const path = fileIn(t)
  fs.chmodSync(dirname(path), 0o1777)
  await asNobody(path, () => assertRefused(path, /pets\.json cannot be replaced: EPERM/))
})

test("keeps another user's file, of which there may be no link", rootOnly, async (t) => {
  const path = fileIn(t)
  await asNobody(path, async () => {
    const store = await open(path)
    process.seteuid?.(0)
    fs.unlinkSync(path)
    fs.writeFileSync(path, 'theirs', { mode: 0o600 })
    process.seteuid?.(NOBODY)
    await store.add(REX) // fails, and mends the file
    assert.equal((await store.add(REX)).ok, true)
    await store.close()
  })
  const kept = fs.readdirSync(dirname(path)).filter((name) => name !== 'pets.json')
  assert.deepEqual(
    kept.map((name) => fs.readFileSync(`${dirname(path)}/${name}`, 'utf8')),
    ['theirs'],
  )
  assert.equal(JSON.parse(fs.readFileSync(path, 'utf8')).length, 2)
})

test('refuses a file that is mounted by itself', mountOnly, async (t) => {
  const path = fileIn(t)
  execFileSync('mount', ['--bind', fileIn(t), path])
  t.after(() => execFileSync('umount', [path]))
  await assertRefused(path, /pets\.json cannot be replaced: EBUSY/)
})

test('starts on a full disk, and refuses to begin on one', mountOnly, async (t) => {
  const folder = folderOf(t)
  const path = `${folder}/pets.json`
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder])
  t.after(() => execFileSync('umount', ['--lazy', folder]))
  const fill = () => {
    assert.throws(() => fs.writeFileSync(`${folder}/filler`, Buffer.alloc(2 ** 20)), /ENOSPC/)
  }
  fill()
  await assertRefused(path, /pets\.json cannot be replaced: ENOSPC/)
  fs.unlinkSync(`${folder}/filler`)
  fs.writeFileSync(path, FILE)
  fill()
  const store = await open(path)
  assert.deepEqual(await store.add(REX), { ok: false, reason: 'storage_failed' })
  assert.equal(store.size, 1)
  await store.close()
  assert.deepEqual(fs.readFileSync(path, 'utf8'), FILE)
})
