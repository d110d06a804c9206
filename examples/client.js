// The code under test, of a shop with fewer than 100 pets, each with a name of its own.

/** Adds a pet. If that fails, waits as long as the store says, and tries once more. */
exports.addPet = async function addPet(api, pet) {
  const add = () => call(api, '/pets', { method: 'POST', body: JSON.stringify(pet) })
  try {
    return await add()
  } catch ({ retryAfter = 0 }) {
    await new Promise((resolve) => setTimeout(resolve, retryAfter * 1_000))
    // The pet may have been added, and the response lost: a second POST would add it twice.
    const pets = await call(api, '/pets?limit=100')
    return pets.find(({ name }) => name === pet.name) ?? add()
  }
}

async function call({ url, headers }, path, init) {
  const type = { 'content-type': 'application/json' }
  const response = await fetch(url + path, { ...init, headers: { ...headers, ...type } })
  if (response.ok) return response.json()
  const retryAfter = Number(response.headers.get('retry-after'))
  throw Object.assign(new Error(`status ${response.status}`), { retryAfter })
}
