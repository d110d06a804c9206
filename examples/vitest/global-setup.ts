import { startPetstore } from 'petstore-server'
import type { TestProject } from 'vitest/node'

declare module 'vitest' {
  interface ProvidedContext {
    petstore: { url: string; controlUrl: string | undefined }
  }
}

/** Starts one petstore for all workers. */
export default async function setup({ provide }: TestProject) {
  const pets = [{ name: 'Rex', categoryId: 1 }]
  const petstore = await startPetstore({ storePerKey: true, controlPort: 0, pets })
  provide('petstore', { url: petstore.url, controlUrl: petstore.controlUrl })
  return () => petstore.close()
}
