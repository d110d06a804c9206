import { fetchClasses } from './runtime.ts'

export { connectPetstore } from './petstore/connect.ts'
export { createPetstore, startPetstore } from './petstore/launch.ts'
export type * from './types.ts'

fetchClasses() // before a test replaces them
