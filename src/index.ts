export { createPetstore, startPetstore } from './petstore.ts'
export type * from './types.ts'
