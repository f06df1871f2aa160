// Server reflection, v1 and v1alpha: lets tools as grpcurl call the server without its .proto files. Imported at the
// first reflection call.

import { encodeFileDescriptor, importedBy, serviceNames, symbolTable } from '../../protocol/grpc/file-descriptors.ts'
import { decodeMessage, encodeMessage, type MessageValue } from '../../protocol/grpc/message-codec.ts'
import type { WireFile } from '../../protocol/grpc/wire-schema.ts'
import { statusCodes } from '../../transport/grpc/grpc-status.ts'

/** What reflection tells about the services of these files. */
export class Reflection {
  readonly #files: readonly WireFile[]
  readonly #symbols: ReadonlyMap<string, WireFile>
  readonly #encoded = new Map<string, Buffer>()

  constructor(files: readonly WireFile[]) {
    this.#files = files
    this.#symbols = symbolTable(files)
  }

  /** One ServerReflectionRequest → one ServerReflectionResponse. Throws for bytes that are not such a message. */
  answer(message: Buffer): Buffer {
    const request = decodeMessage('ServerReflectionRequest', message)
    return encodeMessage('ServerReflectionResponse', {
      validHost: request['host'],
      originalRequest: request,
      ...this.#answerTo(request),
    })
  }

  #answerTo(request: MessageValue): MessageValue {
    const [fileName, symbol] = [request['fileByFilename'], request['fileContainingSymbol']] as (string | null)[]
    if (fileName !== null && fileName !== undefined) {
      const file = this.#files.find((known) => known.name === fileName)
      return file === undefined ? notFound(`no file '${fileName}'`) : this.#descriptorsOf(file)
    }
    if (symbol !== null && symbol !== undefined) {
      const file = this.#symbols.get(symbol)
      return file === undefined ? notFound(`no symbol '${symbol}'`) : this.#descriptorsOf(file)
    }
    if (request['listServices'] !== null) {
      return { listServicesResponse: { service: serviceNames(this.#files).map((name) => ({ name })) } }
    }
    if (request['allExtensionNumbersOfType'] !== null) {
      return { allExtensionNumbersResponse: { baseTypeName: request['allExtensionNumbersOfType'] } }
    }
    return notFound('the services of this server have no extensions')
  }

  /** The descriptors of a file and of the files that it imports. */
  #descriptorsOf(file: WireFile): MessageValue {
    const files = [file, ...importedBy(file, this.#files)]
    return { fileDescriptorResponse: { fileDescriptorProto: files.map((one) => this.#descriptorOf(one)) } }
  }

  #descriptorOf(file: WireFile): Buffer {
    const known = this.#encoded.get(file.name)
    if (known !== undefined) return known
    const bytes = encodeFileDescriptor(file, this.#files)
    this.#encoded.set(file.name, bytes)
    return bytes
  }
}

const notFound = (errorMessage: string): MessageValue => ({
  errorResponse: { errorCode: statusCodes.NOT_FOUND, errorMessage },
})
