// A receiver of profiles: Pyroscope's POST /ingest, and Parca's WriteRaw as gRPC-Web.
// Usage: profile_receiver.mjs ORACLES
// Reads the profiles with pprof-format, and messages with protobufjs. Prints its port,
// then a line of JSON for each request. Refuses the first request for a moment.
import http from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import zlib from "node:zlib";

const oracles = process.argv[2];
const { Profile } = await import(pathToFileURL(`${oracles}/pprof-format/index.js`));
const { Reader } = createRequire(import.meta.url)(`${oracles}/protobufjs/protobuf.js`);

function readProfile(bytes) {
  const profile = Profile.decode(zlib.gunzipSync(bytes));
  const text = (index) => profile.stringTable.strings[Number(index)];
  const functions = new Map(profile.function.map((f) => [Number(f.id), text(f.name)]));
  const locations = new Map(
    profile.location.map((l) => [Number(l.id), functions.get(Number(l.line[0].functionId))]));
  return {
    types: profile.sampleType.map((t) => [text(t.type), text(t.unit)]),
    duration_ns: Number(profile.durationNanos),
    samples: profile.sample.map((s) => ({
      stack: s.locationId.map((id) => locations.get(Number(id))),
      values: s.value.map(Number),
      labels: Object.fromEntries(s.label.map((l) => [text(l.key), text(l.str)])),
    })),
  };
}

// Calls visit(field, bytes) for each field of a message that has a length.
function fields(bytes, visit) {
  const reader = Reader.create(bytes);
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    if ((tag & 7) === 2) visit(tag >>> 3, reader.bytes());
    else reader.skipType(tag & 7);
  }
}

function readParca(body) {
  if (body[0] !== 0 || body.readUInt32BE(1) !== body.length - 5) throw new Error("frame");
  const found = { labels: {}, profiles: [] };
  const label = (bytes) => {
    const pair = [];
    fields(bytes, (field, value) => (pair[field - 1] = Buffer.from(value).toString()));
    found.labels[pair[0]] = pair[1];
  };
  fields(body.subarray(5), (field, series) => {
    if (field !== 2) throw new Error(`field ${field}`);
    fields(series, (part, bytes) => {
      if (part === 1) fields(bytes, (_, one) => label(one));
      else fields(bytes, (_, raw) => found.profiles.push(readProfile(Buffer.from(raw))));
    });
  });
  return found;
}

function readPyroscope(request, body) {
  const query = new URL(request.url, "http://x").searchParams;
  const [, name, list] = query.get("name").match(/^([^{]*)\{(.*)\}$/);
  const boundary = request.headers["content-type"].match(/^multipart\/form-data; boundary=(.*)$/)[1];
  const parts = {};
  for (const piece of body.toString("latin1").split(`--${boundary}`).slice(1, -1)) {
    const end = piece.indexOf("\r\n\r\n");
    const part = piece.slice(0, end).match(/name="([^"]*)"/)[1];
    parts[part] = Buffer.from(piece.slice(end + 4, -2), "latin1");
  }
  return {
    labels: {
      __name__: name,
      ...Object.fromEntries(list.split(",").filter(Boolean).map((pair) => pair.split("="))),
    },
    span: [Number(query.get("from")), Number(query.get("until"))],
    types: JSON.parse(parts.sample_type_config.toString()),
    profiles: [readProfile(parts.profile)],
  };
}

let requests = 0;
const server = http.createServer((request, response) => {
  const pieces = [];
  request.on("data", (piece) => pieces.push(piece));
  request.on("end", () => {
    const parca = request.headers["content-type"].startsWith("application/grpc-web");
    const body = Buffer.concat(pieces);
    const fails = requests++ === 0;
    const read = parca ? readParca(body) : readPyroscope(request, body);
    console.log(JSON.stringify({
      path: request.url.split("?")[0],
      token: request.headers["x-token"],
      accepted: !fails,
      ...read,
    }));
    if (parca) {
      const trailers = Buffer.from(`grpc-status: ${fails ? 14 : 0}\r\n`);
      const head = Buffer.from([0x80, 0, 0, 0, trailers.length]);
      response.writeHead(200, { "content-type": "application/grpc-web+proto" });
      response.end(Buffer.concat([Buffer.from([0, 0, 0, 0, 0]), head, trailers]));
    } else {
      response.writeHead(fails ? 503 : 200);
      response.end();
    }
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
