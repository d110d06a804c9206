// node --import tsx test/bench/snapshot.ts: what a create costs with a snapshot of some sizes, for
// one client and for 64. The file is in the system's folder for temporary files.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startPetstore } from '../../src/index.ts'

const SIZES = [100, 1_000, 10_000, 100_000, 1_000_000]
const DURATION = 5_000
const PET = '"name":"abcdefghij","categoryId":7,"status":"pending"'
const FOLDER = mkdtempSync(join(tmpdir(), 'petstore-bench-'))

/** Creates pets one after the other; adds the milliseconds of each to `times`. */
async function runClient(url: string, headers: Headers, end: number, times: number[]) {
  while (performance.now() < end) {
    const start = performance.now()
    const response = await fetch(`${url}/pets`, { method: 'POST', headers, body: `{${PET}}` })
    await response.text()
    if (response.status !== 201) throw new Error(`status ${response.status}`)
    times.push(performance.now() - start)
  }
}

async function measure(size: number, clients: number): Promise<string> {
  const snapshot = join(FOLDER, 'pets.json')
  const pets = Array.from({ length: size }, (_, at) => `{"id":${at + 1},${PET}}`)
  writeFileSync(snapshot, `[${pets.join(',\n')}]`)
  const petstore = await startPetstore({ snapshot, maxStore: 2 ** 30 })
  const headers = new Headers({ ...petstore.headers, 'content-type': 'application/json' })
  const times: number[] = []
  const end = performance.now() + DURATION
  const running = Array.from({ length: clients }, () => {
    return runClient(petstore.url, headers, end, times)
  })
  await Promise.all(running)
  await petstore.close()
  const median = times.toSorted((one, other) => one - other)[times.length >> 1] ?? NaN
  return `${median.toFixed(1)} | ${Math.round(times.length / (DURATION / 1_000))}`
}

console.log('| pets | 1 client: ms | creates/s | 64 clients: ms | creates/s |')
console.log('| --- | --- | --- | --- | --- |')
for (const size of SIZES) {
  const one = await measure(size, 1)
  console.log(`| ${size.toLocaleString('en')} | ${one} | ${await measure(size, 64)} |`)
}
rmSync(FOLDER, { recursive: true })
