import { ServerError } from '../../base/server-error.ts'
import type { ErrorWording } from '../../model/error-wording.ts'
import type { SharedMemoryRegistry } from '../../engine/shared-memory/shared-memory-registry.ts'
import {
  encodeCudaStatus,
  encodeSystemStatus,
  readCudaRegistration,
  readSystemRegistration,
} from '../../protocol/shared-memory-request.ts'
import { errorResponse, jsonResponse } from '../../ports/http/error-response.ts'
import { HttpResponse, jsonType, type HttpRequest } from '../../transport/http1/http-message.ts'

/** The shared memory extension: clients register, look at and unregister regions of memory. */
export class SharedMemoryEndpoints {
  readonly #registry: SharedMemoryRegistry
  readonly #wording: ErrorWording

  constructor(registry: SharedMemoryRegistry, wording: ErrorWording) {
    this.#registry = registry
    this.#wording = wording
  }

  readonly systemStatus = (request: HttpRequest, region: string): void =>
    this.#answer(request, () => jsonResponse(encodeSystemStatus(this.#registry.systemStatus(region))))

  readonly registerSystem = (request: HttpRequest, region: string): void =>
    this.#answer(request, () => {
      this.#registry.requireAllowed(request.remoteAddress)
      requireName(region, 'system')
      const { key, offset, byteSize } = readSystemRegistration(request.body)
      this.#registry.registerSystem(region, key, offset, byteSize, request.remoteAddress)
      return done()
    })

  readonly unregisterSystem = (request: HttpRequest, region: string): void =>
    this.#answer(request, () => {
      this.#registry.unregisterSystem(region, request.remoteAddress)
      return done()
    })

  readonly cudaStatus = (request: HttpRequest, region: string): void =>
    this.#answer(request, () => jsonResponse(encodeCudaStatus(this.#registry.cudaStatus(region))))

  readonly registerCuda = (request: HttpRequest, region: string): void => {
    void this.#registerCuda(request, region)
  }

  /** Answers every request. */
  async #registerCuda(request: HttpRequest, region: string): Promise<void> {
    let response = done()
    try {
      this.#registry.requireAllowed(request.remoteAddress)
      requireName(region, 'cuda')
      const { rawHandle, deviceId, byteSize } = readCudaRegistration(request.body)
      await this.#registry.registerCuda(region, rawHandle, deviceId, byteSize, request.remoteAddress)
    } catch (reason) {
      response = errorResponse(this.#wording.tell(reason), jsonType)
    }
    request.respond(response)
  }

  readonly unregisterCuda = (request: HttpRequest, region: string): void =>
    this.#answer(request, () => {
      this.#registry.unregisterCuda(region, request.remoteAddress)
      return done()
    })

  #answer(request: HttpRequest, make: () => HttpResponse): void {
    let response: HttpResponse
    try {
      response = make()
    } catch (reason) {
      response = errorResponse(this.#wording.tell(reason), jsonType)
    }
    request.respond(response)
  }
}

function requireName(region: string, kind: 'system' | 'cuda'): void {
  if (region === '')
    throw new ServerError('INVALID_ARG', `'region name' is necessary to register ${kind} shared memory region`)
}

const done = (): HttpResponse => new HttpResponse(200, jsonType)
