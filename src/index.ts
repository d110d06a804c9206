/// <reference types="node" preserve="true" />
export type { Int64, NewPet, Pet, PetStatus } from './pets/pet.ts'
export { createPetstore, startPetstore } from './petstore.ts'
export type { CreateOptions, Fault, OperationId, Petstore, PetstoreOptions, RecordedRequest } from './types.ts'
