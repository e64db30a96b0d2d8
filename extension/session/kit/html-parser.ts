/** In place of `htmlparser2`, of which the sanitizer uses the parser alone, and not what builds and writes documents. */
export { Parser } from '../../../node_modules/htmlparser2/lib/esm/Parser.js';
