// Package kafkatest starts the Kafka clusters and schema registries that the
// tests, the bench and the demo run against, and reads them back with
// a client that shares no code with the worker (franz-go), so that a misreading
// of the protocol cannot hide behind itself.
//
// There are three kinds of cluster (Kinds), and one suite should run on each:
//
//	for _, kind := range kafkatest.Kinds {
//		t.Run(kind, func(t *testing.T) {
//			c := kafkatest.Open(t, kind)     // skips by name, or fails when required
//			in := c.Topic(t, "in", 8)         // a fresh topic, deleted at the end
//			url := c.RegistryURL(t)           // srfake, or Apicurio on real Kafka
//			...
//		})
//	}
//
// kfake lives in this process and is created for each test. Real Kafka is
// three KRaft nodes on loopback, resolved from Maven Central into a cache; one
// cluster a version is shared by the tests of a process and ended by Main:
//
//	func TestMain(m *testing.M) { kafkatest.Main(m) }
//
// The environment:
//
//	ODRADEK_REQUIRE=kafka,registry     a missing part fails the test instead of skipping it
//	ODRADEK_SKIP=kafka,registry        skip these parts, by name, although they could run
//	ODRADEK_LONG=1                     a long run: all tests on all kinds of cluster, more faults
//	ODRADEK_TEST_CACHE=DIR             where jars are kept (~/.cache/odradek-test)
//	ODRADEK_TEST_KEEP=1                keep the clusters' folders, with their logs
//	ODRADEK_TEST_KAFKA_4_1_1=WHERE     use a running cluster: host:port,... or the cluster.json
//	                                   of one started by `go run ./processor/kafkatest/up`
//	ODRADEK_TEST_REGISTRY=URL          use a running registry
//
// A cluster that a test kills, pauses or restarts nodes of is healed before the
// next test gets it. Nothing outlives the process: nodes die with their parent.
package kafkatest
