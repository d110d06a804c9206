// The code under test: adds a pet, and tries again when the store is busy.
async function addPet({ url, headers }, pet) {
  const body = JSON.stringify(pet)
  const response = await fetch(`${url}/pets`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body,
  })
  if (response.status === 503) return addPet({ url, headers }, pet)
  if (!response.ok) throw new Error((await response.json()).message)
  return response.json()
}

module.exports = { addPet }
