/// <reference types="node" preserve="true" />
export type { Limits } from './http/limits.ts'
export type { Log, LogFormat, LogStream } from './http/log.ts'
export type { CreateOptions, PetstoreOptions } from './options.ts'
export type { Int64, NewPet, Pet, PetStatus } from './pets/pet.ts'
export { createPetstore, type Petstore, startPetstore } from './petstore.ts'
export type { Fault, OperationId } from './testing/faults.ts'
export type { RecordedRequest } from './testing/journal.ts'
