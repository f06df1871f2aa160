// Server reflection, v1 and v1alpha: lets tools as grpcurl call the server without its .proto files. Imported at the
// first reflection call.

import { encodeFileDescriptor, serviceNames, symbolTable } from '../../protocol/grpc/file-descriptors.ts'
import { decodeMessage, encodeMessage, type MessageValue } from '../../protocol/grpc/message-codec.ts'
import { wireFiles, type WireFile } from '../../protocol/grpc/wire-schema.ts'
import { statusCodes } from '../../transport/grpc/grpc-status.ts'

const symbols = symbolTable()
const encoded = new Map<string, Buffer>()

/** One ServerReflectionRequest → one ServerReflectionResponse. Throws for bytes that are not such a message. */
export function answerReflection(message: Buffer): Buffer {
  const request = decodeMessage('ServerReflectionRequest', message)
  return encodeMessage('ServerReflectionResponse', {
    validHost: request['host'],
    originalRequest: request,
    ...answerTo(request),
  })
}

function answerTo(request: MessageValue): MessageValue {
  const [fileName, symbol] = [request['fileByFilename'], request['fileContainingSymbol']] as (string | null)[]
  if (fileName !== null && fileName !== undefined) {
    const file = wireFiles.find((known) => known.name === fileName)
    return file === undefined ? notFound(`no file '${fileName}'`) : descriptorsOf(file)
  }
  if (symbol !== null && symbol !== undefined) {
    const file = symbols.get(symbol)
    return file === undefined ? notFound(`no symbol '${symbol}'`) : descriptorsOf(file)
  }
  if (request['listServices'] !== null) {
    return { listServicesResponse: { service: serviceNames().map((name) => ({ name })) } }
  }
  if (request['allExtensionNumbersOfType'] !== null) {
    return { allExtensionNumbersResponse: { baseTypeName: request['allExtensionNumbersOfType'] } }
  }
  return notFound('the services of this server have no extensions')
}

const notFound = (errorMessage: string): MessageValue => ({
  errorResponse: { errorCode: statusCodes.NOT_FOUND, errorMessage },
})

/** The descriptors of a file and of the files that it imports. */
function descriptorsOf(file: WireFile): MessageValue {
  const files = [file, ...wireFiles.filter((other) => file.dependencies.includes(other.name))]
  return { fileDescriptorResponse: { fileDescriptorProto: files.map(descriptorOf) } }
}

function descriptorOf(file: WireFile): Buffer {
  const known = encoded.get(file.name)
  if (known !== undefined) return known
  const bytes = encodeFileDescriptor(file)
  encoded.set(file.name, bytes)
  return bytes
}
