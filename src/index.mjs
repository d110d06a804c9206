import { createRequire } from 'node:module'

export const { createPetstore, startPetstore } = createRequire(import.meta.url)('./index.cjs')
