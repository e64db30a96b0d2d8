/**
 * Completion and inspection of a kernel on a subshell, so that they are answered while it runs a cell; the gateway takes it down with the
 * page. A kernel without subshells, or one whose features are not known yet, answers when its cell has ended.
 */
import type { Kernel, KernelMessage } from '@jupyterlab/services';

export class SideShell {
  constructor(private readonly kernel: Kernel.IKernelConnection) {
    // A restarted kernel has other shells.
    kernel.statusChanged.connect((_, status) => {
      if (status === 'restarting' || status === 'autorestarting' || status === 'dead') this._id = null;
    });
  }

  complete(content: KernelMessage.ICompleteRequestMsg['content']): Promise<KernelMessage.ICompleteReplyMsg> {
    return this.inTurn(() => this.kernel.requestComplete(content));
  }

  inspect(content: KernelMessage.IInspectRequestMsg['content']): Promise<KernelMessage.IInspectReplyMsg> {
    return this.inTurn(() => this.kernel.requestInspect(content));
  }

  private async inTurn<T>(request: () => Promise<T>): Promise<T> {
    const { kernel } = this;
    // Whether it is busy cannot be told: the idle of a subshell is shown as that of the kernel.
    const id = kernel.supportsSubshells ? await this.shell() : null;
    // The connection stamps a request with its shell when it is made; cells go to the main one.
    kernel.subshellId = id;
    const answer = request();
    kernel.subshellId = null;
    return answer;
  }

  private shell(): Promise<string> {
    this._id ??= this.kernel.requestCreateSubshell({}).done.then(({ content }) => content.subshell_id);
    this._id.catch(() => {
      this._id = null;
    });
    return this._id;
  }

  private _id: Promise<string> | null = null;
}

const shells = new WeakMap<Kernel.IKernelConnection, SideShell>();

export function sideShellOf(kernel: Kernel.IKernelConnection): SideShell {
  const known = shells.get(kernel) ?? new SideShell(kernel);
  shells.set(kernel, known);
  return known;
}
