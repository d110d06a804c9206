// The code under test: lists and adds pets, and tries again a few times while the store is busy.
const ATTEMPTS = 4
const LONGEST_WAIT = 10 // seconds

export function listPets(api) {
  return retry(() => send(api), (error) => error instanceof Busy || isLost(error))
}

/** Does not repeat a request whose response was lost: that could add a second pet. */
export function addPet(api, pet) {
  const init = { method: 'POST', body: JSON.stringify(pet) }
  return retry(() => send(api, init), (error) => error instanceof Busy)
}

class Busy extends Error {
  constructor(message, retryAfter) {
    super(message)
    this.retryAfter = retryAfter
  }
}

/** Whether an error of fetch() says that the connection broke. */
export function isLost(error) {
  return error instanceof TypeError
}

async function send({ url, headers }, init) {
  const type = { 'content-type': 'application/json' }
  const response = await fetch(`${url}/pets`, { ...init, headers: { ...headers, ...type } })
  if (response.ok) return response.json()
  const message = `${response.status} ${await response.text()}`
  const isBusy = response.status === 429 || response.status === 503
  throw isBusy ? new Busy(message, response.headers.get('retry-after')) : new Error(message)
}

async function retry(task, isWorthIt) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await task()
    } catch (error) {
      const seconds = Number(error.retryAfter ?? 0.1 * 2 ** attempt)
      const isLast = attempt === ATTEMPTS || !(seconds <= LONGEST_WAIT) // Retry-After can be a date
      if (isLast || !isWorthIt(error)) throw error
      await new Promise((resolve) => setTimeout(resolve, 1000 * seconds))
    }
  }
}
