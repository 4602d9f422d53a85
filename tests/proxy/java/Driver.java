import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/** What a driver is asked for, ADDRESS SCENARIO name=value ..., and the facts that it tells, one a line. */
class Driver {
    static final Map<String, String> ASKED = new HashMap<>();

    static void read(String[] words) {
        for (String word : Arrays.asList(words).subList(2, words.length)) {
            ASKED.put(word.substring(0, word.indexOf('=')), word.substring(word.indexOf('=') + 1));
        }
    }

    static String ask(String name, String other) {
        return ASKED.getOrDefault(name, other);
    }

    static int number(String name, int other) {
        return Integer.parseInt(ask(name, "" + other));
    }

    static synchronized void tell(Object... words) {
        StringBuilder line = new StringBuilder();
        for (Object word : words) {
            line.append(line.length() == 0 ? "" : "\t").append(word);
        }
        System.out.println(line);
        System.out.flush();
    }

    /** Does the scenario, a method of that name, and ends the process. */
    static void perform(Class<?> scenarios, String name) throws Exception {
        try {
            scenarios.getDeclaredMethod(name).invoke(null);
        } catch (java.lang.reflect.InvocationTargetException error) {
            error.getCause().printStackTrace();
            System.exit(1);
        }
        tell("done");
        System.exit(0);
    }
}
