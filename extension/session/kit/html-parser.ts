/** Replaces `htmlparser2`: the sanitizer uses only its parser, not the code that builds and writes documents. */
export { Parser } from '../../../node_modules/htmlparser2/lib/esm/Parser.js';
