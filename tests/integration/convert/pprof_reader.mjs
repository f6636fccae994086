// Prints a profile of pprof as JSON, as the reader of others understands it.
//   node pprof_reader.mjs FOLDER FILE
// FOLDER has that reader (scripts/fetch-oracles).
import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';
import {gunzipSync} from 'node:zlib';

const [folder, file] = process.argv.slice(2);
const {Profile} = await import(pathToFileURL(join(folder, 'index.js')).href);
const profile = Profile.decode(gunzipSync(readFileSync(file)));
const text = (index) => profile.stringTable.strings[Number(index)];
const byId = (entries) => new Map(entries.map((entry) => [Number(entry.id), entry]));
const locations = byId(profile.location);
const functions = byId(profile.function);
const frame = (id) => {
  const made = functions.get(Number(locations.get(Number(id)).line[0].functionId));
  return [text(made.name), text(made.systemName)];
};
const type = (entry) => [text(entry.type), text(entry.unit)];
process.stdout.write(JSON.stringify({
  types: profile.sampleType.map(type),
  period: [type(profile.periodType), Number(profile.period)],
  default: text(profile.defaultSampleType),
  time: String(profile.timeNanos),
  samples: profile.sample.map((sample) => ({
    stack: sample.locationId.map(frame),
    values: sample.value.map(Number),
    labels: Object.fromEntries(
        sample.label.map((label) => [text(label.key), text(label.str)])),
  })),
}));
