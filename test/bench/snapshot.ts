// node --import tsx test/bench/snapshot.ts: what a create costs with a snapshot of some sizes, for
// one client and for 64. FILE is in the system's folder for temporary files.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startPetstore } from '../../src/index.ts'

const SIZES = [100, 1_000, 10_000, 100_000, 1_000_000]
const DURATION = 5_000
const PET = '"name":"abcdefghij","categoryId":7,"status":"pending"'
const FOLDER = mkdtempSync(join(tmpdir(), 'petstore-bench-'))

/** The median of the milliseconds of a create, and how many there were in a second. */
async function measure(size: number, clients: number): Promise<string> {
  const snapshot = join(FOLDER, 'pets.json')
  const pets = Array.from({ length: size }, (_, at) => `{"id":${at + 1},${PET}}`)
  writeFileSync(snapshot, `[${pets.join(',\n')}]`)
  const petstore = await startPetstore({ snapshot, maxStore: 2 ** 30 })
  const request = { method: 'POST', headers: petstore.headers, body: Buffer.from(`{${PET}}`) }
  const times: number[] = []
  const end = performance.now() + DURATION
  const create = async (): Promise<void> => {
    while (performance.now() < end) {
      const start = performance.now()
      const response = await fetch(`${petstore.url}/pets`, request)
      await response.text()
      if (response.status !== 201) throw new Error(`status ${response.status}`)
      times.push(performance.now() - start)
    }
  }
  await Promise.all(Array.from({ length: clients }, create))
  await petstore.close()
  const median = times.toSorted((one, other) => one - other)[times.length >> 1] ?? NaN
  return `${median.toFixed(1)} | ${Math.round(times.length / (DURATION / 1_000))}`
}

async function main(): Promise<void> {
  console.log('| pets | 1 client: ms | creates/s | 64 clients: ms | creates/s |')
  console.log('| --- | --- | --- | --- | --- |')
  for (const size of SIZES) {
    const one = await measure(size, 1)
    console.log(`| ${size.toLocaleString('en')} | ${one} | ${await measure(size, 64)} |`)
  }
}

void main().finally(() => rmSync(FOLDER, { recursive: true }))
