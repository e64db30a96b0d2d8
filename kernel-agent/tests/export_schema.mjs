// Writes the JSON schema of the telemetry messages, from the built protocol package.
// `node export_schema.mjs > telemetry.schema.json`; `test_schema.py` fails when the committed file is not this.
import { TelemetryMessage } from '../../protocol/lib/index.js';

process.stdout.write(JSON.stringify(TelemetryMessage, null, 2) + '\n');
