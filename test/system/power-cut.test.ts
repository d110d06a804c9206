import assert from 'node:assert/strict'
import fs from 'node:fs'
import { test, type TestContext } from 'node:test'
import { openSnapshotStore } from '../../src/files/snapshot-store.ts'
import { Running } from '../process.ts'
import { folderOf, KEY, listAll, petsIn, Random, SEED, send, words } from '../support.ts'
import { Disk, fill, read } from './power-cut-disk.ts'
import type { Event } from './power-cut-recorder.ts'

const IMAGES = Number(process.env['IMAGES'] ?? 500)
const FLAGS = words(`--import tsx --import ./test/system/power-cut-recorder.ts dist/main.js
  --log off --port 0 --control-port 0 --api-key ${KEY} --snapshot`)
const IMAGE = folderOf()

const [random, faults]: [Random, string[]] = [new Random(SEED), []]
let [images, count] = [0, 0]

function newPet(): string {
  const text = random.chance(0.2) ? ' '.repeat(random.integer(0, 9_000)) : random.string()
  const status = random.pick(['', ',"status":"sold"'])
  return `{"name":${JSON.stringify(`${++count} ${text}`)},"categoryId":${random.int64()}${status}}`
}

const withId = (pet: string, at: number) => pet.replace('{', `{"id":${at + 1},`)
const withoutId = (json: string) => json.replace(/"id":\d+,/, '')

class Promises {
  #kept: string[] = []
  readonly #pending = new Set<string>()
  /** What resets that are not acknowledged may have put in the place of all. */
  #resets: string[][] = []

  note({ op, text = '', pets = [] }: Event): void {
    if (op === 'request') this.#pending.add(String(pets))
    else if (op === 'reset') this.#resets.push(pets.map(withId))
    else if (op === 'shown') this.begin(pets)
    else if (text.includes(' 204 ')) [this.#kept, this.#resets] = [this.#resets.at(-1) ?? [], []]
    for (const json of petsIn(text)) {
      this.#kept[Number(/\d+/.exec(json)) - 1] = json
      this.#pending.delete(withoutId(json))
    }
  }

  begin(pets: readonly string[]): void {
    faults.push(...this.faultsOf(pets))
    this.#pending.clear()
    ;[this.#kept, this.#resets] = [[...pets], []]
  }

  faultsOf(pets: readonly string[]): string[] {
    const kept =
      this.#resets.find((reset) => reset.every((json, at) => pets[at] === json)) ?? this.#kept
    const pending = new Set(this.#pending)
    const isSent = (json: string, at: number) =>
      pending.delete(withoutId(json)) && json === withId(withoutId(json), at)
    const lost = kept.filter((json, at) => pets[at] !== json).map((json) => `lost ${json}`)
    const others = pets.filter((json, at) => kept[at] !== json && !isSent(json, at))
    return [...lost, ...others.map((json) => `invented ${json}`)].slice(0, 1)
  }
}

class History {
  readonly #data = folderOf()
  readonly #path = `${this.#data}/pets.json`
  readonly #record = `${folderOf()}/record`
  readonly #promises = new Promises()
  #disk = new Disk()

  /** Lets clients use a server to a random end, then tries this many cuts in what happened. */
  async live(t: TestContext, cuts: number): Promise<void> {
    const end = random.pick(['cut', 'kill', 'stop'])
    fs.writeFileSync(this.#record, '')
    this.#fail(end === 'kill' ? `kill ${random.pick([0, 0.001, 0.01, 0.1])}` : '')
    const env = { ...process.env, RECORD: this.#record, RECORD_FOLDER: this.#data }
    const server = new Running([process.execPath, ...FLAGS, this.#path], { env })
    t.after(() => server.process.kill('SIGKILL'))
    const greeting = server.until(/(http:\S+).*\n.*(http:\S+).*\n/)
    const used = greeting.then(([, url = '', control = '']) => this.#load(url, control))
    await used.catch(() => {}) // killed
    this.#fail('')
    server.process.kill(end === 'stop' ? 'SIGTERM' : 'SIGKILL')
    await server.exited
    await this.#replay(cuts, end)
  }

  readonly #fail = (what: string) => fs.writeFileSync(`${this.#record}.fail`, what)
  readonly #note = (event: Event) => fs.appendFileSync(this.#record, `${JSON.stringify(event)}\n`)

  async #load(url: string, control: string): Promise<void> {
    this.#note({ op: 'shown', pets: await listAll({ url }) })
    let [clients, left] = [random.pick([1, 1, 3, 16]), random.pick([5, 30, 200])]
    const add = async (_: unknown, client: number) => {
      for (; left > 0; left--) {
        const what = random.pick(['sync', 'write', 'write,sync', 'truncate,sync'])
        if (random.chance(0.05))
          this.#fail(random.chance(0.5) ? '' : `${what} ${random.pick([0.2, 1])}`)
        if (client === 0 && random.chance(0.02 * clients)) {
          const pets = Array.from({ length: random.pick([1, 50]) }, newPet)
          this.#note({ op: 'reset', pets })
          await send({ url: control }, 'POST', '/reset', { body: `[${pets}]` })
        }
        const pet = newPet()
        this.#note({ op: 'request', pets: [pet] })
        const { status, body } = await send({ url }, 'POST', '/v1/pets', { body: pet })
        if (clients > 1 || status !== 201 || random.chance(0.97)) continue
        this.#fail('') // and wait quietly until the snapshot of a small store holds the pet
        while (this.#isSmall() && !fs.readFileSync(this.#path, 'utf8').includes(body))
          await send({ url }, 'GET', '/livez')
      }
    }
    await Promise.all(Array.from({ length: clients }, add))
  }

  #isSmall(): boolean {
    const sizes = [...read(this.#data)].map(([, content]) => content.length)
    return sizes.reduce((sum, size) => sum + size, 0) < 2 ** 16
  }

  async #replay(cuts: number, end: string): Promise<void> {
    const lines = fs.readFileSync(this.#record, 'utf8').split('\n').slice(0, -1)
    for (const line of lines) {
      for (let chance = cuts / lines.length; random.chance(chance); chance--) await this.#cut()
      const event: Event = JSON.parse(line)
      this.#disk.apply(event)
      this.#promises.note(event)
    }
    const files = read(this.#data)
    if (end === 'stop')
      assert.deepEqual(this.#disk.files, files, 'something was written that is not recorded')
    this.#disk.adopt(files)
    if (end === 'cut') await this.#cut(true)
  }

  /** Starts a store after a cut, adds a pet, and restarts it; `goesOn` continues from the cut. */
  async #cut(goesOn = false): Promise<void> {
    const [files, path] = [this.#disk.cut(random), `${IMAGE}/pets.json`]
    const open = () => {
      const mustExist = this.#promises.faultsOf([]).length > 0
      if (mustExist || fs.existsSync(path)) JSON.parse(fs.readFileSync(path, 'utf8'))
      return openSnapshotStore(path, 1e9, () => {})
    }
    images++
    fill(IMAGE, files)
    try {
      const store = await open()
      const pets = [...store.values()]
      const added = await store.add({ name: 'after', categoryId: 1 })
      await store.close()
      const again = await open()
      assert.deepEqual([...again.values()], [...pets, added.ok && added.json])
      await again.close()
      assert.deepEqual(this.#promises.faultsOf(pets), [])
      if (!goesOn) return
      this.#disk = new Disk(files)
      fill(this.#data, files)
      this.#promises.begin(pets)
    } catch (error) {
      faults.push(String(error).slice(0, 300))
    }
  }
}

test(`${IMAGES} cuts of power lose nothing and invent nothing (SEED=${SEED})`, async (t) => {
  while (images < IMAGES) {
    const history = new History()
    for (let life = 0; life < 4; life++) await history.live(t, 100)
  }
  assert.deepEqual(faults, [])
})
