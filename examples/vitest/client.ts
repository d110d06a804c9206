import { setTimeout as wait } from 'node:timers/promises'

interface NewPet {
  name: string
  categoryId: number
}

interface Pet extends NewPet {
  id: number
}

interface Api {
  url: string
  headers: Record<string, string>
}

const ATTEMPTS = 4
const LONGEST_WAIT = 10 // seconds

// The code under test: adds a pet, and tries again a few times while the store is busy.
export async function addPet({ url, headers }: Api, pet: NewPet): Promise<Pet> {
  const init = {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify(pet),
  }
  for (let attempt = 1; ; attempt++) {
    const response = await fetch(`${url}/pets`, init)
    if (response.ok) return response.json()
    const error = new Error(`${response.status} ${await response.text()}`)
    const isBusy = response.status === 429 || response.status === 503
    if (!isBusy || attempt === ATTEMPTS) throw error
    const seconds = Number(response.headers.get('retry-after') ?? 0.1 * 2 ** attempt)
    if (!(seconds <= LONGEST_WAIT)) throw error // also if Retry-After is a date
    await wait(1000 * seconds)
  }
}
