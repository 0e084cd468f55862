// Package influx reads records in the Influx line protocol, which Telegraf writes by default: one line or many, such as
//
//	cpu,host=web-1,cpu=cpu0 usage_idle=91.5,usage_user=3i 1700000000000000000
//
// The paths of a mapping are the paths of the JSON that Telegraf writes: name (the measurement), tags.NAME, fields.NAME and
// timestamp. scan splits a line into its tokens; program compares them with the mapped names, and allocates only where a name
// or a part of the key is written with escapes.
//
// # What a record means
//
//   - Without an array of readings a record is one line; with the array @value, each line is a reading. Comments and empty
//     lines are none.
//   - Values are numbers (float, i and u) and Booleans, 1 and 0. A text is no value.
//   - A line without any of the mapped values is left out. Of series by field, a line has the series of its own fields alone.
//   - A key consists of the measurement and tags. A tag that a line lacks is an empty part of the key.
//   - A timestamp is in nanoseconds, or in the mapping's unit; a line without one has the record's.
//   - A mapped tag or field that comes twice in a line is malformed. Fields that are not mapped are skipped unread.
package influx
