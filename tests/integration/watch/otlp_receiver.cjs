// A receiver of OTLP metrics over HTTP. Usage: otlp_receiver.cjs ORACLES
// Decodes with OpenTelemetry's own decoder. Prints its port, then a line of JSON for each
// request: what each resource reported. Answers the first request with 503.
"use strict";
const http = require("http");
const Module = require("module");
const zlib = require("zlib");

const oracles = process.argv[2];
const resolve = Module._resolveFilename;
Module._resolveFilename = function (name, ...rest) {
  return name === "protobufjs/minimal"
    ? `${oracles}/protobufjs/protobuf.js`
    : resolve.call(this, name, ...rest);
};
const root = require(`${oracles}/otlp-decoder/root.js`);
const service = root.opentelemetry.proto.collector.metrics.v1;

function attributes(list) {
  return Object.fromEntries(
    (list || []).map(({ key, value }) => [key, value.stringValue ?? Number(value.intValue)]));
}

function points(metric) {
  const data = metric.sum || metric.gauge || metric.histogram;
  return data.dataPoints.map((point) => ({
    ...attributes(point.attributes),
    value: point.asDouble ?? Number(point.count),
    buckets: point.bucketCounts?.map(Number),
    started: Number(point.startTimeUnixNano) > 0,
    time_ms: Number(BigInt(point.timeUnixNano.toString()) / 1000000n),
  }));
}

let requests = 0;
const server = http.createServer((request, response) => {
  const pieces = [];
  request.on("data", (piece) => pieces.push(piece));
  request.on("end", () => {
    let body = Buffer.concat(pieces);
    if (request.headers["content-encoding"] === "gzip") body = zlib.gunzipSync(body);
    const message = service.ExportMetricsServiceRequest.decode(body);
    const resources = message.resourceMetrics.map((resource) => ({
      attributes: attributes(resource.resource.attributes),
      metrics: Object.fromEntries(resource.scopeMetrics.flatMap((scope) =>
        scope.metrics.map((metric) => [metric.name, { unit: metric.unit, points: points(metric) }]))),
    }));
    const fails = requests++ === 0;
    console.log(JSON.stringify({
      path: request.url,
      type: request.headers["content-type"],
      token: request.headers["x-token"],
      accepted: !fails,
      resources,
    }));
    response.writeHead(fails ? 503 : 200, { "content-type": "application/x-protobuf" });
    response.end(fails ? "" : service.ExportMetricsServiceResponse.encode({}).finish());
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
