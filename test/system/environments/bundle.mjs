import { createPetstore } from 'petstore-server'

const { fetch } = createPetstore()
const paths = ['/', '/openapi.json']
const responses = paths.map((path) => fetch(`http://any.example${path}`))
Promise.all(responses).then((all) => console.log(...all.map(({ status }) => status)))
