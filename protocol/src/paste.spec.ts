import { expect, it } from 'vitest';
import { readPasted } from './paste.js';

it.each([
  ['ssh me@203.0.113.9', { target: 'me@203.0.113.9' }],
  ['ssh -p 2222 me@203.0.113.9', { target: 'ssh://me@203.0.113.9:2222' }],
  ['ssh -p2222 -l me 203.0.113.9', { target: 'ssh://me@203.0.113.9:2222' }],
  ['$ ssh me@host.invalid', { target: 'me@host.invalid' }],
  ['ssh me@203.0.113.9 -p 2222', { target: 'ssh://me@203.0.113.9:2222' }],
  ['ssh -A -t me@host nvidia-smi', { target: 'me@host' }],
  ['ssh \\\n  -p 2222 \\\n  me@host', { target: 'ssh://me@host:2222' }],
  ['gcloud compute tpus tpu-vm ssh my-tpu --zone=us-east5-b', { target: 'gcloud:tpu-vm/us-east5-b/my-tpu' }],
  ['gcloud alpha compute tpus queued-resources ssh q --zone z-a', { target: 'gcloud:queued-resource/z-a/q' }],
  [
    'gcloud compute tpus tpu-vm ssh me@my-tpu --project p --worker=all',
    { target: 'gcloud:tpu-vm/my-tpu', project: 'p' }
  ],
  [
    'gcloud compute ssh my-vm --zone us-east5-b --tunnel-through-iap',
    { target: 'gcloud:instance/us-east5-b/my-vm', tunnelThroughIap: true }
  ],
  [
    'https://console.cloud.google.com/compute/tpus/details/us-east5-b/my-tpu?project=my-project',
    { target: 'gcloud:tpu-vm/us-east5-b/my-tpu', project: 'my-project' }
  ],
  [
    'https://console.cloud.google.com/compute/instancesDetail/zones/us-east5-b/instances/vm?project=p',
    { target: 'gcloud:instance/us-east5-b/vm', project: 'p' }
  ],
  ['“me@203.0.113.9”', { target: 'me@203.0.113.9' }],
  ['"me@203.0.113.9"', { target: 'me@203.0.113.9' }],
  ['me@203.0.113.9 ', { target: 'me@203.0.113.9' }],
  ['me@203.0.113.9:2222', { target: 'ssh://me@203.0.113.9:2222' }],
  ['ssh://me@host:2222', { target: 'ssh://me@host:2222' }],
  ['::1', { target: '::1' }],
  ['me@fd00::7', { target: 'me@fd00::7' }],
  ['::1%lo', { target: '::1%lo' }],
  ['[fd00::7]', { target: 'fd00::7' }],
  ['me@[fd00::7]', { target: 'me@fd00::7' }],
  ['gcloud:us-east5-b/my-tpu', { target: 'gcloud:us-east5-b/my-tpu' }],
  ['colab:v6e1', { target: 'colab:v6e1' }],
  // Copied with the Cloud console's button.
  [
    'gcloud compute ssh --zone "us-c" "vm" --project "p" --tunnel-through-iap',
    { target: 'gcloud:instance/us-c/vm', project: 'p', tunnelThroughIap: true }
  ],
  [
    'gcloud alpha compute tpus tpu-vm ssh t --zone us-c --worker=all --tunnel-through-iap',
    { target: 'gcloud:tpu-vm/us-c/t', tunnelThroughIap: true }
  ],
  ['gcloud compute ssh --network n vm --zone z -- -L 1:h:2', { target: 'gcloud:instance/z/vm' }],
  ['gcloud compute tpus tpu-vm ssh t —zone us-c', { target: 'gcloud:tpu-vm/us-c/t' }],
  ['ssh -NfL 8888:localhost:8888 me@host', { target: 'me@host' }],
  ['ssh -L8888:localhost:8888 me@host', { target: 'me@host' }],
  ['ssh -4p2222 me@host', { target: 'ssh://me@host:2222' }],
  ['ssh -Ap 2222 me@host', { target: 'ssh://me@host:2222' }],
  ['ssh -o Port=2222 -oUser=me host', { target: 'ssh://me@host:2222' }],
  ['ssh –p 2222 me@host', { target: 'ssh://me@host:2222' }],
  ['ssh -S none -E log -- me@host', { target: 'me@host' }],
  ["/usr/bin/ssh 'me@host' # my machine", { target: 'me@host' }],
  ['ssh.exe me@host tmux attach', { target: 'me@host' }],
  ['tpulab connect me@host', { target: 'me@host' }],
  ['me@host\u200b', { target: 'me@host' }],
  // With the prompt, as copied from a terminal, a page or a chat.
  ['(base) me@laptop:~$ ssh -p 2222 me@host', { target: 'ssh://me@host:2222' }],
  ['PS C:\\Users\\me> ssh me@host', { target: 'me@host' }],
  ['% TERM=xterm exec ssh me@host', { target: 'me@host' }],
  ['```sh\nssh me@host\n```', { target: 'me@host' }],
  ['\x1b[31mssh me@host\x1b[0m', { target: 'me@host' }],
  ['ｓｓｈ　me＠host', { target: 'me@host' }],
  ['mailto:me@host', { target: 'me@host' }],
  ['me@host,', { target: 'me@host' }],
  ['me@host -p 2222', { target: 'ssh://me@host:2222' }],
  ['-p 2222 me@host', { target: 'ssh://me@host:2222' }],
  // TPULab sets these itself.
  ['ssh -o StrictHostKeyChecking=no -oServerAliveInterval=60 -p 22 me@host', { target: 'ssh://me@host:22' }],
  [
    'https://console.cloud.google.com/u/1/compute/tpus/details/us-east5-b/my-tpu?project=p',
    { target: 'gcloud:tpu-vm/us-east5-b/my-tpu', project: 'p' }
  ],
  [
    'https://ssh.cloud.google.com/v2/ssh/projects/p/zones/z/instances/vm?authuser=0',
    { target: 'gcloud:instance/z/vm', project: 'p' }
  ],
  [
    'projects/p/locations/us-east5-b/nodes/my-tpu',
    { target: 'gcloud:tpu-vm/us-east5-b/my-tpu', project: 'p' }
  ]
])('%j is %j', (text, expected) => {
  expect(readPasted(text)).toEqual(expected);
});

it.each([
  ['ssh -i ~/.ssh/id_ed25519 me@203.0.113.9', /^-i .*IdentityFile/],
  ['ssh -J jump.invalid me@host.invalid', /^-J .*ProxyJump/],
  ['me@203.0.113.9; touch ~/pasted', /character ;|blank/],
  ['ssh me@host; rm -rf ~', /character ;/],
  ['ssh me@host\nrm x', /line break/],
  ['CORP\\jdoe@corp-host', /"User CORP\\jdoe" into a Host entry/],
  ['tp@[fd00::7]:22222', /\[ADDRESS\]:PORT.*Host entry/],
  ['ssh://tp@[fd00::7]:22222', /\[ADDRESS\]:PORT.*Host entry/],
  ['https://example.com/x', /leads to no machine/],
  ['gcloud auth login', /compute ssh NAME/],
  ['gcloud compute ssh $(x) --zone z', /character \$/],
  ['-oProxyCommand=x', /dash/],
  ['a b', /blank/],
  ['user/host', /character \//],
  ['', /USER@HOST/],
  ['ssh -o "ProxyJump=jump" me@host', /^-o .*put ProxyJump into a Host entry/],
  ['ssh -W host:22 me@jump', /^-W .*ProxyJump/],
  ['mosh me@host', /^mosh is not a command/],
  ['aws ssm start-session --target i-0abc', /^aws is not a command/],
  ['az ssh vm --resource-group g --name v', /^az is not a command/],
  ['scp file me@host:folder', /^scp is not a command/],
  ['sshpass -p secret ssh me@host', /^sshpass is not a command/],
  ['https://colab.research.google.com/drive/abc', /colab:v5e1/],
  ['ssh://me@host/folder', /folder cannot be part/],
  ['me@host:99999', /99999 is not a port/],
  ['ssh://me@host:0', /^0 is not a port/],
  ['ssh -p 99999 me@host', /99999 is not a port/],
  ['ssh', /USER@HOST/],
  ['@host', /USER@HOST/],
  ['\u202emoh@em', /hidden character/],
  ['gcloud compute tpus tpu-vm ssh $TPU_NAME --zone $ZONE', /^\$TPU_NAME is a variable/],
  ['Host vm\n  HostName 203.0.113.9\n  User me', /entry of ~\/\.ssh\/config.*connect to vm/],
  ['sftp://me@host', /^sftp:\/\/ is not taken/],
  ['me@host:~/project', /folder cannot be part/],
  ['ssh [email protected]', /character \[/],
  ['one,two', /character ,/],
  ['kubectl exec -it pod -- bash', /^kubectl is not a command/],
  ['me@host -oProxyCommand=x -p 22', /^-o .*ProxyCommand/]
])('%j is refused with a reason', (text, reason) => {
  const pasted = readPasted(text);
  expect('refused' in pasted ? pasted.refused : pasted).toMatch(reason);
});
