import { randomUUID } from 'node:crypto'
import type { BigIntStats } from 'node:fs'
import { open, readdir, readlink, realpath, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { codeOf, messageOf } from '../errors.ts'
import { readJson } from './json.ts'
import { checkPetsStrictly, petJson } from './pet.ts'
import type { Pet } from './store.ts'

const SIBLING = /^\.[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}\.new$/ // follows the name of FILE
const PIECE = 2_000 // pets: between two pieces of a write, requests have their turn

/** A JSON file of pets that is only ever replaced whole: at any moment, it is old or new. */
export class PetFile {
  readonly path: string
  #seen: BigIntStats | undefined // the file as it was read or written last; undefined if missing

  /** @param path No link: see `followLinks`. */
  constructor(path: string) {
    this.path = path
  }

  /** Resolves to all pets; to undefined if there is no file. */
  async read(): Promise<Pet[] | undefined> {
    this.#seen = undefined
    try {
      const handle = await open(this.path)
      try {
        const seen = await handle.stat({ bigint: true }) // first: a later change is found later
        const pets = checkPetsStrictly(readJson(await handle.readFile()))
        this.#seen = seen
        return pets
      } finally {
        await handle.close()
      }
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return undefined
      throw new Error(`cannot read ${this.path} as a JSON array of pets: ${messageOf(error)}`)
    }
  }

  /** False, and without an effect, if others have changed the file since it was read or written. */
  async replace(pets: readonly Pet[]): Promise<boolean> {
    const sibling = this.#newSibling()
    try {
      const written = await this.#write(sibling, pets)
      if (!isSame(await statOf(this.path), this.#seen)) return false
      await this.#takePlace(sibling)
      this.#seen = written
      return true
    } finally {
      await rm(sibling).catch(() => {}) // unless it was renamed
    }
  }

  /** Writes pets to a new file, which gets the mode of the old one. */
  async #write(sibling: string, pets: readonly Pet[]): Promise<BigIntStats> {
    const old = await statOf(this.path)
    const mode = old && Number(old.mode) & 0o777
    const handle = await open(sibling, 'wx', mode)
    try {
      if (mode !== undefined) await handle.chmod(mode).catch(() => {}) // where the system lets us
      await writeFile(handle, linesOf(pets))
      await handle.sync()
      return await handle.stat({ bigint: true })
    } finally {
      await handle.close()
    }
  }

  /** Replaces whatever is there. */
  async overwrite(pets: readonly Pet[]): Promise<void> {
    for (;;) {
      this.#seen = await statOf(this.path)
      if (await this.replace(pets)) return
    }
  }

  async #takePlace(sibling: string): Promise<void> {
    try {
      await rename(sibling, this.path)
    } catch (error) {
      if (codeOf(error) !== 'EBUSY') throw error
      throw new Error(`${this.path} is mounted by itself: mount its folder`, { cause: error })
    }
  }

  /** Makes the latest `replace` outlast a power cut. */
  async syncFolder(): Promise<void> {
    const folder = await open(dirname(this.path))
    await folder.sync().finally(() => folder.close())
  }

  /** Removes what a kill in the middle of a write has left, and proves that a write can begin. */
  async prepareFolder(): Promise<void> {
    const folder = dirname(this.path)
    const name = basename(this.path)
    try {
      for (const other of await readdir(folder)) {
        const isLeft = other.startsWith(name) && SIBLING.test(other.slice(name.length))
        if (isLeft) await rm(join(folder, other), { force: true }) // another start may be faster
      }
      const sibling = this.#newSibling()
      await writeFile(sibling, '', { flag: 'wx' })
      await rm(sibling)
    } catch (error) {
      throw new Error(`the folder of ${this.path} must be writable: ${messageOf(error)}`)
    }
  }

  #newSibling(): string {
    return `${this.path}.${randomUUID()}.new`
  }
}

/** What a path leads to, through links, also where nothing is there yet. */
export async function followLinks(path: string): Promise<string> {
  try {
    return await realpath(path)
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error
    const link = await readlink(path).catch(() => undefined)
    if (link === undefined) return resolve(path)
    return followLinks(resolve(await realpath(dirname(path)), link))
  }
}

/** A JSON array with one pet a line, in pieces. */
function* linesOf(pets: readonly Pet[]): Generator<string> {
  yield '[\n'
  for (let at = 0; at < pets.length; at += PIECE) {
    const lines = pets.slice(at, at + PIECE).map(petJson)
    yield (at === 0 ? '' : ',\n') + lines.join(',\n')
  }
  yield pets.length === 0 ? ']\n' : '\n]\n'
}

/** What is at a path; undefined if nothing is. */
async function statOf(path: string): Promise<BigIntStats | undefined> {
  try {
    return await stat(path, { bigint: true })
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** Whether a file was not changed between two looks. */
function isSame(one: BigIntStats | undefined, other: BigIntStats | undefined): boolean {
  return one?.ino === other?.ino && one?.size === other?.size && one?.mtimeNs === other?.mtimeNs
}
