// IMAGES=3000: how many cuts of power.
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { startPetstore } from '../../src/index.ts'
import type { Int64, Pet, Petstore } from '../../src/types.ts'
import { temporaryFolder } from '../support.ts'
import { Disk, pick } from './disk.ts'

const IMAGES = Number(process.env['IMAGES'] ?? 300)

type Pets = ReadonlyMap<string, Int64> // ids by the number at the beginning of a name

/** What FILE may have at some moment: what must be there, and what else may be. */
interface World {
  readonly must: Pets
  readonly may: ReadonlySet<string>
}

interface Image {
  readonly files: ReadonlyMap<string, Buffer>
  readonly worlds: readonly World[]
}

function byNumber(pets: readonly Pet[]): Pets {
  return new Map(pets.map(({ name, id }) => [name.replace(/ .*/, ''), id]))
}

/** What is wrong with pets; empty if one of the worlds allows them. */
function faultOf(pets: Pets, worlds: readonly World[]): string {
  const faults = worlds.map(({ must, may }) => {
    const lost = [...must].find(([name, id]) => pets.get(name) !== id)
    if (lost) return `lost ${lost}`
    const shown = [...pets.keys()].find((name) => !must.has(name) && !may.has(name))
    return shown === undefined ? '' : `shown ${shown}`
  })
  return faults.includes('') ? '' : faults.join(' or ')
}

/** A petstore on a failing disk, images of which are taken now and then. */
async function live(folder: string, disk: Disk): Promise<Image[]> {
  const snapshot = `${folder}/pets.json`
  const images: Image[] = []
  const given = new Map<Int64, string>() // names by id, since the last reset
  let worlds: World[] = [{ must: new Map(), may: new Set() }] // several after a reset that failed
  let count = 0
  let failures = 0
  disk.onOperation = () => {
    if (Math.random() < 0.1) images.push({ files: disk.cut(), worlds })
  }

  /** Starts, if need be when the disk is well again. */
  async function open(): Promise<Petstore> {
    try {
      return await startPetstore({ snapshot })
    } catch {
      disk.fails = () => false
      return startPetstore({ snapshot })
    }
  }

  function give(id: Int64, name: string): void {
    assert.equal(given.get(id) ?? name, name, `id ${id} was given twice`)
    given.set(id, name)
  }

  async function add(petstore: Petstore): Promise<void> {
    const number = `${++count}`
    const name = `${number} ${'x'.repeat(pick(0, 50, 5_000))}`
    worlds = worlds.map(({ must, may }) => ({ must, may: new Set(may).add(number) }))
    try {
      const [{ id } = { id: 0 }] = await petstore.add([{ name, categoryId: 1 }])
      give(id, number)
      worlds = worlds.map(({ must, may }) => ({ must: new Map(must).set(number, id), may }))
    } catch {
      failures++
    }
  }

  async function reset(petstore: Petstore): Promise<void> {
    const names = Array.from({ length: pick(0, 1, 30) }, () => `${++count}`)
    const must = new Map(names.map((name, at) => [name, at + 1]))
    given.clear()
    const fresh = { must, may: new Set<string>() }
    const before = worlds
    worlds = [...before, fresh]
    try {
      await petstore.reset(names.map((name) => ({ name, categoryId: 2 })))
      worlds = [fresh]
    } catch {
      failures++
      given.clear()
    }
  }

  let petstore = await open()
  let seen = new Set<string>() // what FILE has had since it was last durable for sure
  for (let action = 0; action < 60; action++) {
    const failing = disk.operations + 1 + (action >> 1) // each operation fails in turn
    const rate = pick(0, 0.02)
    disk.fails = action % 2 ? () => Math.random() < rate : (operation) => operation === failing
    failures = 0
    const kind = Math.random()
    if (kind < 0.2) {
      await reset(petstore)
    } else if (kind < 0.3) {
      await petstore.close()
      petstore = await open()
    } else {
      await Promise.all(Array.from({ length: pick(1, 1, 3, 16) }, () => add(petstore)))
    }
    const text = existsSync(snapshot) ? readFileSync(snapshot, 'utf8') : '[]'
    const inFile: Pet[] = JSON.parse(text)
    const pets = byNumber(inFile)
    assert.equal(faultOf(pets, worlds), '')
    assert.deepEqual(byNumber(await petstore.pets()), pets, 'it shows what is in FILE')
    for (const [name, id] of pets) give(id, name)
    const isDurable = failures === 0 && kind >= 0.3
    if (isDurable) {
      worlds = [{ must: pets, may: new Set() }]
      seen = new Set()
    }
    // What was refused, and has not been in FILE, is never seen.
    for (const name of pets.keys()) seen.add(name)
    worlds = worlds.map(({ must, may }) => {
      return { must, may: new Set([...may].filter((name) => seen.has(name))) }
    })
  }
  disk.fails = () => false
  await petstore.close()
  return images
}

/** Starts a petstore on an image, and adds a pet. */
async function check(folder: string, { files, worlds }: Image): Promise<void> {
  for (const name of readdirSync(folder)) rmSync(`${folder}/${name}`)
  for (const [name, content] of files) writeFileSync(`${folder}/${name}`, content)
  const petstore = await startPetstore({ snapshot: `${folder}/pets.json` })
  try {
    assert.equal(faultOf(byNumber(await petstore.pets()), worlds), '')
    assert.ok(readdirSync(folder).every((name) => name === 'pets.json'))
    await petstore.add([{ name: 'after', categoryId: 1 }])
  } finally {
    await petstore.close()
  }
}

test(`${IMAGES} cuts of power lose nothing and show nothing that was refused`, async (t) => {
  const folder = temporaryFolder(t)
  mkdirSync(`${folder}/image`)
  let images = 0
  for (let life = 0; images < IMAGES; life++) {
    mkdirSync(`${folder}/${life}`)
    const disk = new Disk(`${folder}/${life}`)
    const taken = await live(`${folder}/${life}`, disk).finally(() => disk.detach())
    for (const image of taken) await check(`${folder}/image`, image)
    images += taken.length
  }
})
