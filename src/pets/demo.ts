import type { NewPet } from './pet.ts'

/** A dozen pets to look at: all three statuses, and one pet without a status. */
export const DEMO_PETS: readonly NewPet[] = [
  { name: 'Rex', categoryId: 1, status: 'available' },
  { name: 'Bella', categoryId: 1, status: 'sold' },
  { name: 'Waldi', categoryId: 1, status: 'pending' },
  { name: 'Tom', categoryId: 2, status: 'available' },
  { name: 'Minka', categoryId: 2, status: 'available' },
  { name: 'Søren', categoryId: 2, status: 'sold' },
  { name: 'Goldie', categoryId: 3, status: 'available' },
  { name: 'Nemo', categoryId: 3, status: 'sold' },
  { name: 'Tweety', categoryId: 4, status: 'pending' },
  { name: 'Kiki', categoryId: 4, status: 'available' },
  { name: 'Hops', categoryId: 5, status: 'available' },
  { name: 'Speedy', categoryId: 6 },
]
