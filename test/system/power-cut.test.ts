import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { startPetstore } from '../../src/index.ts'
import type { Petstore } from '../../src/types.ts'
import { temporaryFolder } from '../support.ts'
import { Disk, follow, pick } from './disk.ts'

const IMAGES = Number(process.env['IMAGES'] ?? 300)

/** What FILE may have at some moment, by name: what must be there, and what else may be. */
interface World {
  must: Map<string, number | undefined> // with the id, if that is known
  may: Set<string>
}

interface Image {
  readonly files: Map<string, Buffer>
  readonly worlds: World[]
}

const worldOf = (names: Iterable<string> = []): World => {
  return { must: new Map(Array.from(names, (name) => [name, undefined])), may: new Set() }
}

/** A petstore on a disk, images of which are taken now and then. */
class Life {
  readonly images: Image[] = []
  #worlds = [worldOf()] // the last one is that of a reset in progress
  #count = 0
  readonly #petstore: Petstore
  readonly #disk: Disk

  constructor(petstore: Petstore, disk: Disk, chance: number) {
    this.#petstore = petstore
    this.#disk = disk
    disk.onChange = () => {
      if (Math.random() < chance) this.#takeImage()
    }
  }

  #takeImage(): void {
    const worlds = this.#worlds.map(({ must, may }) => {
      return { must: new Map(must), may: new Set(may) }
    })
    this.images.push({ files: this.#disk.cut(), worlds })
  }

  async add(clients: number): Promise<void> {
    const [world = worldOf()] = this.#worlds
    await Promise.all(
      Array.from({ length: clients }, async () => {
        const name = `${++this.#count} ${'x'.repeat(pick(0, 50, 5_000))}`
        world.may.add(name)
        try {
          const [pet] = await this.#petstore.add([{ name, categoryId: 1 }])
          world.must.set(name, Number(pet?.id))
          const shown = this.#petstore.pets.filter((other) => other.id === pet?.id)
          assert.deepEqual(shown, [pet])
        } catch (error) {
          if (Reflect.get(Object(error), 'code') === 'outcome_unknown') return
          assert.equal(Reflect.get(Object(error), 'code'), 'storage_failed')
          world.may.delete(name)
          assert.ok(this.#petstore.pets.every((pet) => pet.name !== name))
        }
      }),
    )
  }

  async reset(): Promise<void> {
    const pets = Array.from({ length: pick(0, 1, 30) }, () => {
      return { name: `${++this.#count}`, categoryId: 2 }
    })
    const fresh = worldOf(pets.map(({ name }) => name))
    this.#worlds.push(fresh)
    try {
      await this.#petstore.reset(pets)
      this.#worlds = [fresh]
    } catch (error) {
      const code = Reflect.get(Object(error), 'code')
      if (code === 'storage_failed') this.#worlds.pop()
      else await this.#settle()
    }
  }

  /** After a write that succeeds, what is shown is in FILE. */
  async #settle(): Promise<void> {
    this.#disk.fails = () => false
    assert.ok((await fetch(new URL('/readyz', this.#petstore.url))).ok)
    const { pets } = this.#petstore
    assert.equal(
      faultOf(
        pets.map(({ name }) => name),
        this.#worlds,
      ),
      undefined,
    )
    const must = new Map(pets.map(({ name, id }) => [name, Number(id)]))
    this.#worlds = [{ must, may: new Set() }]
  }
}

/** What is wrong with the pets of an image; undefined if one of the worlds allows them. */
function faultOf(names: readonly string[], worlds: readonly World[]): string | undefined {
  const faults = worlds.map(({ must, may }) => {
    const lost = [...must.keys()].find((name) => !names.includes(name))
    const invented = names.find((name) => !must.has(name) && !may.has(name))
    if (lost !== undefined) return `lost ${lost}`
    if (invented !== undefined) return `shown ${invented}`
    return new Set(names).size < names.length ? 'a pet twice' : undefined
  })
  return faults.includes(undefined) ? undefined : faults.join(' or ')
}

/** Starts a petstore on an image a minute after the cut, and adds a pet. */
async function check(folder: string, { files, worlds }: Image): Promise<void> {
  for (const name of readdirSync(folder)) rmSync(`${folder}/${name}`)
  for (const [name, content] of files) {
    writeFileSync(`${folder}/${name}`, content)
    utimesSync(`${folder}/${name}`, 1, 1)
  }
  const petstore = await startPetstore({ snapshot: `${folder}/pets.json` })
  try {
    assert.equal(
      faultOf(
        petstore.pets.map(({ name }) => name),
        worlds,
      ),
      undefined,
    )
    const ids = new Map(petstore.pets.map(({ name, id }) => [name, Number(id)]))
    const wrong = worlds.map(({ must }) => {
      return [...must].some(([name, id]) => id !== undefined && ids.get(name) !== id)
    })
    assert.ok(wrong.includes(false), 'a pet has another id')
    await petstore.add([{ name: 'after', categoryId: 1 }])
  } finally {
    await petstore.close()
  }
}

test(`${IMAGES} cuts of power lose nothing and show nothing that was refused`, async (t) => {
  const folder = temporaryFolder(t)
  const imageFolder = temporaryFolder(t)
  let images = 0
  for (let life = 0; images < IMAGES; life++) {
    const disk = new Disk()
    const data = `${folder}/${life}`
    mkdirSync(data)
    await t.test(`life ${life}`, async (inner) => {
      follow(inner, data, disk)
      const petstore = await startPetstore({ snapshot: `${data}/pets.json` })
      const run = new Life(petstore, disk, 0.1)
      for (let action = 0; action < 60; action++) {
        const failing = disk.steps + 1 + (action >> 1) // each step fails in turn
        const rate = pick(0, 0.02)
        disk.fails = action % 2 ? () => Math.random() < rate : (step) => step === failing
        if (Math.random() < 0.2) await run.reset()
        else await run.add(pick(1, 1, 3, 16))
      }
      disk.fails = () => false
      await petstore.close()
      for (const image of run.images) await check(imageFolder, image)
      images += run.images.length
    })
  }
  assert.ok(images >= IMAGES)
})
