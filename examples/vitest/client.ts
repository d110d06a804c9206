interface Pet {
  id: number
  name: string
  categoryId: number
}

// The code under test: adds a pet, and tries again when the store is busy.
export async function addPet(
  { url, headers }: { url: string; headers: Record<string, string> },
  pet: Omit<Pet, 'id'>,
): Promise<Pet> {
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
