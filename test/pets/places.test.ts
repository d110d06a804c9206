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

const rootOnly = { skip: process.getuid?.() !== 0 && 'only root may take another user' }
const folder = folderOf()
const mayMount = spawnSync('mount', ['-t', 'tmpfs', 'tmpfs', folder]).status === 0
if (mayMount) execFileSync('umount', [folder])
const mountOnly = { skip: !mayMount && 'nothing may be mounted here' }

/** A file in a folder that everybody may write to. */
function fileIn(t: TestContext): string {
  const folder = folderOf(t)
  fs.chmodSync(folder, 0o777)
  fs.writeFileSync(`${folder}/pets.json`, FILE)
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

for (const kind of ['mkfifo', 'mkdir']) {
  test(`refuses a file or a journal made by ${kind}`, async (t) => {
    const path = fileIn(t)
    execFileSync(kind, [`${path}.journal`])
    await assertRefused(path, /pets\.json\.journal: must be a regular file$/)
    fs.unlinkSync(path)
    execFileSync(kind, [path])
    await assertRefused(path, /pets\.json: must be a regular file$/)
  })
}

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
  assert.equal(JSON.parse(fs.readFileSync(path, 'utf8')).length, 2)
  const [, keptAs = ''] = fs.readdirSync(dirname(path)).sort()
  assert.equal(fs.readFileSync(`${dirname(path)}/${keptAs}`, 'utf8'), 'theirs')
})

test('refuses a file that is mounted by itself', mountOnly, async (t) => {
  const path = fileIn(t)
  execFileSync('mount', ['--bind', fileIn(t), path])
  t.after(() => execFileSync('umount', [path]))
  await assertRefused(path, /pets\.json cannot be replaced: EBUSY/)
})

test('refuses to begin on a full disk', mountOnly, async (t) => {
  const folder = folderOf(t)
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder])
  t.after(() => execFileSync('umount', ['--lazy', folder]))
  assert.throws(() => fs.writeFileSync(`${folder}/filler`, Buffer.alloc(2 ** 20)), /ENOSPC/)
  await assertRefused(`${folder}/pets.json`, /pets\.json cannot be replaced: ENOSPC/)
})
