import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Array;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeFormatterBuilder;
import java.time.temporal.ChronoField;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/**
 * Flink SQL in one embedded cluster of parallelism 1, streaming, in UTC. A statement per line of standard input; each is
 * answered by a line per row, {"kind": "+U", "row": [...]}, and a last line, {"end": true} or {"error": "..."}.
 *
 * <p>Values as in fixtures/flink-2.3: DECIMAL a text, BYTES base64, times in ISO form, MAP a list of pairs, ROW a list.
 */
public final class FlinkSql {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final DateTimeFormatter TIME =
            new DateTimeFormatterBuilder().appendPattern("HH:mm:ss").appendFraction(ChronoField.NANO_OF_SECOND, 0, 9, true).toFormatter(Locale.ROOT);
    private static final DateTimeFormatter TIMESTAMP =
            new DateTimeFormatterBuilder().appendPattern("uuuu-MM-dd'T'").append(TIME).toFormatter(Locale.ROOT);

    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.setString("table.local-time-zone", "UTC");
        settings.setString("parallelism.default", "1");
        settings.setString("restart-strategy.type", "none");
        settings.setString("taskmanager.memory.managed.size", "64mb");
        settings.setString("rest.address", "127.0.0.1");
        settings.setString("rest.bind-address", "127.0.0.1");
        settings.setString("rest.bind-port", arguments[0]);
        // One cluster for all statements; left to itself, Flink starts one for each.
        MiniCluster cluster = new MiniCluster(new MiniClusterConfiguration.Builder()
                .setConfiguration(settings).setNumTaskManagers(1).setNumSlotsPerTaskManager(4).build());
        cluster.start();
        settings.setString("execution.target", "remote");
        settings.setString("rest.port", String.valueOf(cluster.getRestAddress().get().getPort()));
        settings.setString("client.retry-period", "100 ms");
        TableEnvironment flink = TableEnvironment.create(
                EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(settings).build());
        BufferedReader statements = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String statement; (statement = statements.readLine()) != null; ) {
            try {
                run(flink, statement);
                say(Map.of("end", true));
            } catch (Throwable error) {
                say(Map.of("error", chain(error)));
            }
        }
        Runtime.getRuntime().halt(0); // the cluster's threads would go on
    }

    private static void run(TableEnvironment flink, String statement) throws Exception {
        if (statement.startsWith("SET ")) { // SET name = value
            String[] setting = statement.substring(4).split("=", 2);
            flink.getConfig().set(setting[0].trim(), setting[1].trim());
            return;
        }
        TableResult result = flink.executeSql(statement);
        if (statement.startsWith("INSERT ")) {
            result.await();
        } else if (statement.startsWith("SELECT ")) {
            List<LogicalType> types = new ArrayList<>();
            result.getResolvedSchema().getColumnDataTypes().forEach(type -> types.add(type.getLogicalType()));
            try (CloseableIterator<Row> rows = result.collect()) {
                while (rows.hasNext()) {
                    Row row = rows.next();
                    say(Map.of("kind", row.getKind().shortString(), "row", plain(row, types)));
                }
            }
        }
    }

    private static void say(Object answer) throws Exception {
        OUT.println(JSON.writeValueAsString(answer));
    }

    private static String chain(Throwable error) {
        return error + (error.getCause() == null ? "" : "\nCaused by: " + chain(error.getCause()));
    }

    private static List<Object> plain(Row row, List<LogicalType> types) {
        List<Object> found = new ArrayList<>();
        for (int i = 0; i < row.getArity(); i++) {
            found.add(plain(row.getField(i), types.get(i)));
        }
        return found;
    }

    private static Object plain(Object value, LogicalType type) {
        List<LogicalType> types = type.getChildren();
        if (value == null || value instanceof Boolean || value instanceof Number && !(value instanceof java.math.BigDecimal)) {
            return value instanceof Double number && !Double.isFinite(number) ? number.toString() : value;
        } else if (value instanceof java.math.BigDecimal number) {
            return number.toPlainString();
        } else if (value instanceof byte[] bytes) {
            return Base64.getEncoder().encodeToString(bytes);
        } else if (value instanceof LocalDateTime time) {
            return TIMESTAMP.format(time);
        } else if (value instanceof Instant moment) {
            return TIMESTAMP.format(LocalDateTime.ofInstant(moment, ZoneOffset.UTC)) + "Z";
        } else if (value instanceof LocalTime time) {
            return TIME.format(time);
        } else if (value instanceof Row row) {
            return plain(row, types);
        } else if (value instanceof Map<?, ?> map) {
            List<Object> found = new ArrayList<>();
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                List<Object> pair = new ArrayList<>(); // may hold nulls
                pair.add(plain(entry.getKey(), types.get(0)));
                pair.add(plain(entry.getValue(), types.get(1)));
                found.add(pair);
            }
            return found;
        } else if (value.getClass().isArray()) {
            List<Object> found = new ArrayList<>();
            for (int i = 0; i < Array.getLength(value); i++) {
                found.add(plain(Array.get(value, i), types.get(0)));
            }
            return found;
        }
        return value.toString(); // texts, DATE
    }
}
