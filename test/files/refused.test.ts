// Lets additions and resets fail in each of their steps. What was refused must not be seen after a
// kill, nor after a cut of power.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { test } from 'node:test'
import { openSnapshotStore } from '../../src/files/snapshot-store.ts'
import type { LocalStore } from '../../src/pets/store.ts'
import { folderOf, Random, SEED } from '../support.ts'
import { Disk, fill, read } from '../system/power-cut-disk.ts'

const IMAGES = Number(process.env['IMAGES'] ?? 100)
const CUTS = 4
const [DATA, IMAGE, RECORD] = [folderOf(), folderOf(), `${folderOf()}/record`]

const fail = (what: string) => fs.writeFileSync(`${RECORD}.fail`, what)
const open = (folder: string) => openSnapshotStore(`${folder}/pets.json`, 1e9, () => {})
const petOf = (name: string) => ({ name, categoryId: 1 })

fail('')
Object.assign(process.env, { RECORD, RECORD_FOLDER: DATA })
const { stepsTaken } = await import('../system/power-cut-recorder.ts') // it records this process

const random = new Random(SEED)
let images = 0

/** Fails steps of a change, and checks what is left. False if there are fewer steps. */
async function failSteps(change: (store: LocalStore) => unknown, first: number, last: number) {
  fill(DATA, new Map([['pets.json.petstore-old', Buffer.from('[]')]])) // left by a kill
  fs.writeFileSync(RECORD, '')
  const store = await open(DATA)
  const count = random.integer(0, 5)
  for (let at = 0; at < count; at++) await store.add(petOf(' '.repeat(random.pick([1, 9_000]))))
  if (random.chance(0.3)) await store.reset([petOf('reset')])
  fail(`step ${first} ${last}`)
  await Promise.resolve(change(store)).catch(() => {})
  const [disk, events] = [new Disk(), fs.readFileSync(RECORD, 'utf8').split('\n').slice(0, -1)]
  const [killed, hasStep] = [read(DATA), stepsTaken() >= first]
  const pets = [...store.values()]
  fail('')
  for (const event of events) disk.apply(JSON.parse(event))
  // While syncs fail, nobody knows what a cut of power would leave.
  const cuts = last === first ? Array.from({ length: CUTS }, () => disk.cut(random)) : []
  for (const image of [killed, ...cuts]) {
    images++
    fill(IMAGE, image)
    const restarted = await open(IMAGE)
    assert.deepEqual([...restarted.values()], pets, `steps ${first} to ${last}`)
    await restarted.close()
  }
  await store.close()
  assert.doesNotMatch(`${fs.readdirSync(DATA)}`, /json\.\d/) // its own file, kept as a foreign one
  return hasStep
}

test(`no image of at least ${IMAGES} contains a refused change (SEED=${SEED})`, async () => {
  const reset = (store: LocalStore) => store.reset(Array(random.pick([1, 50])).fill(petOf('fresh')))
  const add = (store: LocalStore) => store.add(petOf('more'))
  while (images < IMAGES) {
    let step = 1
    while (await failSteps(add, step, step)) step++
    for (const last of [0, Infinity]) {
      step = 1
      while (await failSteps(reset, step, Math.max(step, last))) step++
    }
  }
})
