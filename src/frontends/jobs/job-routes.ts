import { ServerError } from '../../base/server-error.ts'
import { errorResponse } from '../../ports/http/error-response.ts'
import { forAll, get, getOrPost, large, post, type Route, type RouteHandler } from '../../ports/http/route.ts'
import { jsonType } from '../../transport/http1/http-message.ts'
import type { JobEndpoints } from './job-endpoints.ts'

const off: RouteHandler = (request) =>
  request.respond(errorResponse(ServerError.withoutStack('UNSUPPORTED', 'this server runs no jobs: start it with --allow-jobs=true, and with --jobs-dir FOLDER for jobs that read files'), jsonType)) // prettier-ignore

/** Null where the server runs no jobs: then the code of jobs is not read. Triton does not have these paths. */
export function jobRoutes(endpoints: JobEndpoints | null): Route[] {
  const one = '/v2/jobs/{job}'
  const act = (action: 'pause' | 'resume' | 'cancel'): Route =>
    post(`${one}/${action}`, 'jobs', endpoints?.act(action) ?? off)
  // A list shows the jobs of all models, and who may see one may see its answers.
  const routes = [
    large(getOrPost('/v2/jobs', 'jobs', endpoints?.list ?? off)),
    get(one, 'jobs', endpoints?.show ?? off),
    get(`${one}/output`, 'jobs', endpoints?.output ?? off),
    act('pause'),
    act('resume'),
    act('cancel'),
  ]
  return routes.map(forAll)
}
