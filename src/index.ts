export type { LogFormat, LogStream } from './http/log.ts'
export type { Int64, NewPet, Pet, PetStatus } from './pets/pet.ts'
export { type Petstore, type PetstoreOptions, startPetstore } from './petstore.ts'
