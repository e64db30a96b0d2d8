// @ts-check
/**
 * The code that the kernels run. The mark is made with `chr`, so that the code that the kernel sends back does not look like
 * output.
 */
import { MARK } from './client.mjs';

const MARK_CODE = `chr(${MARK.charCodeAt(0)})`;
const NUMBER = '%08d';

/** Numbered messages with about `bytes` bytes of text each. @param {number} count @param {number} bytes */
export function displayData(count, bytes) {
  return `
def _bench():
    publish = get_ipython().display_pub.publish
    template = ${MARK_CODE} + "${NUMBER}" + "x" * ${Math.max(0, bytes - 9)}
    for n in range(${count}):
        publish({"text/plain": template % n})
_bench()`;
}

/** Lines that are flushed one by one. @param {number} count */
export function flushedPrints(count) {
  return `
def _bench():
    template = ${MARK_CODE} + "${NUMBER} of the benchmark's lines, each of them flushed"
    for n in range(${count}):
        print(template % n, flush=True)
_bench()`;
}

/** Comm messages with a buffer each, from the kernel. @param {number} count @param {number} bytes */
export function buffersOut(count, bytes) {
  return `
def _bench():
    from comm import create_comm
    comm = create_comm(target_name="bench")
    buffer = b"b" * ${bytes}
    for n in range(${count}):
        comm.send({"n": (${MARK_CODE} + "${NUMBER}") % n}, buffers=[buffer])
    comm.close()
_bench()`;
}

export const COMM_TARGET = 'bench-in';

/** Counts received buffers. */
export const BUFFERS_IN = `
_bench_bytes = 0
_bench_count = 0
def _bench_opened(comm, message):
    @comm.on_msg
    def _(message):
        global _bench_bytes, _bench_count
        for buffer in message["buffers"]:
            _bench_bytes += len(buffer)
            _bench_count += 1
get_ipython().kernel.comm_manager.register_target("${COMM_TARGET}", _bench_opened)`;

/** Prints the number of received buffers. */
export const BUFFERS_SHOWN = `
_bench_template = ${MARK_CODE} + "${NUMBER}"
print(_bench_template % _bench_count)
_bench_count = _bench_bytes = 0`;
