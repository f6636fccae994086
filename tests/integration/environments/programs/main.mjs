// make_dispatches in Node.
const addon = { exports: {} };
process.dlopen(addon, process.argv[2]);
process.exit(addon.exports());
