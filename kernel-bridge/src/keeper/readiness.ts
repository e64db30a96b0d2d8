/**
 * Asks `kernel_info` until the kernel has answered once and iopub has delivered once. Only then is nothing lost that a
 * client's request makes the kernel say: a subscription that is still under way misses messages. The first question waits
 * for the stdin socket, so that an answer also means that an `input_request` will arrive.
 */

/** The sockets hold a request until the kernel has bound its own, so an unanswered one is seldom worth repeating. */
const UNANSWERED_MS = 2_000;
/** Answered, but iopub is silent: the subscription was not there yet when the kernel said busy and idle. */
const SILENT_IOPUB_MS = 50;

export class Readiness {
  readonly ready: Promise<void>;
  #becomeReady!: () => void;
  #answered = false;
  #heard = false;
  #stopped = false;
  #timer: NodeJS.Timeout | null = null;

  /** `nudge` sends a `kernel_info_request` on shell and on control. */
  constructor(private readonly nudge: () => void) {
    this.ready = new Promise(resolve => {
      this.#becomeReady = resolve;
    });
  }

  get isReady(): boolean {
    return this.#answered && this.#heard;
  }

  start(): void {
    this.#again();
  }

  /** The stdin socket is connected. A kernel that has none is asked all the same, a little later. */
  connected(): void {
    if (!this.#stopped && !this.isReady) {
      clearTimeout(this.#timer ?? undefined);
      this.nudge();
      this.#again();
    }
  }

  /** A `kernel_info_reply` to a nudge has come. */
  answered(): void {
    if (!this.#answered) {
      this.#answered = true;
      this.#check();
    }
  }

  /** Any message has come on iopub. */
  heard(): void {
    if (!this.#heard) {
      this.#heard = true;
      this.#check();
    }
  }

  /** `ready` then never resolves. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer ?? undefined);
  }

  #check(): void {
    if (this.#stopped) return;
    clearTimeout(this.#timer ?? undefined);
    if (this.isReady) {
      this.#becomeReady();
    } else {
      this.#again();
    }
  }

  #again(): void {
    this.#timer = setTimeout(
      () => {
        this.nudge();
        this.#again();
      },
      this.#answered ? SILENT_IOPUB_MS : UNANSWERED_MS
    );
  }
}
