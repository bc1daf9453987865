import java.io.*; import java.nio.file.*; import java.time.*; import java.time.chrono.*; import java.time.format.*; import java.time.temporal.*; import java.util.*;

/** Reads lines of pattern TAB text; prints the local time and the moment in microseconds, or what is refused. */
public class TimestampForms {
    static DateTimeFormatter formatter(String pattern) {
        DateTimeFormatterBuilder b = new DateTimeFormatterBuilder();
        StringBuilder rest = new StringBuilder();
        boolean quoted = false;
        for (int i = 0; i < pattern.length(); ) {
            char c = pattern.charAt(i);
            if (c == '\'') quoted = !quoted;
            if (!quoted && (c == '[' || c == ']' || c == 'S' || c == 'a')) {
                if (rest.length() > 0) { b.appendPattern(rest.toString()); rest.setLength(0); }
                if (c == '[') { b.optionalStart(); i++; }
                else if (c == ']') { b.optionalEnd(); i++; }
                else if (c == 'a') { b.parseCaseInsensitive().appendPattern("a").parseCaseSensitive(); i++; }
                else {
                    int from = i;
                    while (i < pattern.length() && pattern.charAt(i) == 'S') i++;
                    boolean digits = i < pattern.length() && "yuMdHhms".indexOf(pattern.charAt(i)) >= 0;
                    if (digits || (from > 0 && "yuMdHhms".indexOf(pattern.charAt(from - 1)) >= 0)) b.appendPattern(pattern.substring(from, i));
                    else b.appendFraction(ChronoField.NANO_OF_SECOND, 1, i - from, false);
                }
                continue;
            }
            rest.append(!quoted && c == 'y' ? 'u' : c);
            i++;
        }
        if (rest.length() > 0) b.appendPattern(rest.toString());
        if (pattern.indexOf('h') < 0) b.parseDefaulting(ChronoField.HOUR_OF_DAY, 0);
        b.parseDefaulting(ChronoField.MINUTE_OF_HOUR, 0).parseDefaulting(ChronoField.SECOND_OF_MINUTE, 0);
        return b.toFormatter(Locale.US).withChronology(IsoChronology.INSTANCE).withResolverStyle(ResolverStyle.STRICT);
    }
    static String micros(long seconds, int nano) { return Long.toString(Math.addExact(Math.multiplyExact(seconds, 1000000L), nano / 1000)); }
    public static void main(String[] args) throws IOException {
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        for (String line : Files.readAllLines(Paths.get(args[0]))) {
            String[] parts = line.split("\t", -1);
            String local = "-", moment = "-";
            try {
                TemporalAccessor found = formatter(parts[0]).parse(parts[1]);
                LocalDateTime at = LocalDateTime.from(found);
                local = micros(at.toEpochSecond(ZoneOffset.UTC), at.getNano());
                ZoneOffset offset = found.query(TemporalQueries.offset());
                ZoneId zone = found.query(TemporalQueries.zoneId());
                if (found.isSupported(ChronoField.INSTANT_SECONDS)) {
                    Instant i = Instant.from(found);
                    moment = micros(i.getEpochSecond(), i.getNano());
                } else {
                    ZonedDateTime z = ZonedDateTime.of(at, ZoneId.of("Europe/Berlin"));
                    moment = "Berlin " + micros(z.toEpochSecond(), z.getNano());
                }
            } catch (DateTimeException | ArithmeticException e) { }
            out.println(line + "\t" + local + "\t" + moment);
        }
    }
}
